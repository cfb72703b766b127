// Runs static/pack.js without a browser: node pack.cjs SCRIPT CASES FOLDER ZIP
// Every case of CASES is to leave out what it says, and FOLDER, a JSON of names and contents, is
// packed into ZIP. Prints what is wrong.
"use strict";
const fs = require("node:fs"), vm = require("node:vm");
const [script, cases, folder, zip] = process.argv.slice(2);
const packing = vm.runInThisContext(fs.readFileSync(script, "utf8").split("\n// The page.")[0] + "\n;packing");

// tree makes the nodes of names and contents. Nobody may list node_modules/heavy.
function tree(files) {
  const root = { dir: true, name: "", all: new Map() };
  for (const [name, text] of Object.entries(files)) {
    const names = name.split("/");
    let at = root;
    for (const n of names.slice(0, -1)) {
      if (!at.all.has(n)) at.all.set(n, { dir: true, name: n, all: new Map() });
      at = at.all.get(n);
    }
    at.all.set(names.at(-1), { name: names.at(-1), file: async () => new File([text], names.at(-1), { lastModified: Date.UTC(2024, 1, 29, 12, 30, 8) }) });
  }
  const lists = (node) => {
    if (!node.dir) return;
    node.list = async () => {
      if (node.name === "heavy") throw new Error("node_modules/heavy was listed");
      return [...node.all.values()];
    };
    node.all.forEach(lists);
  };
  lists(root);
  return root;
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const bytes = (a) => a.sort((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y)));

(async () => {
  for (const c of JSON.parse(fs.readFileSync(cases, "utf8"))) {
    const found = await packing.scan(tree(c.files));
    const sent = bytes(found.files.map((f) => f.name)), secrets = bytes([...found.left].filter(([, why]) => why === "secret").map(([name]) => name));
    if (!same(sent, c.sent)) console.log(`${c.case}: sent are ${JSON.stringify(sent)}, want ${JSON.stringify(c.sent)}`);
    if (!same(secrets, c.secrets ?? [])) console.log(`${c.case}: secrets are ${JSON.stringify(secrets)}`);
    if (found.ignored !== (c.ignored ?? 0)) console.log(`${c.case}: ${found.ignored} are ignored, want ${c.ignored ?? 0}`);
  }
  const many = tree({ "package.json": '{"dependencies":{"x":"1"}}', "index.js": "1", "node_modules/heavy/a": "x", "node_modules/.package-lock.json": "{}" });
  const light = await packing.scan(many);
  if (light.files.length !== 2 || light.left.get("node_modules/") !== "modules") console.log("a heavy folder:", light);
  const names = Object.fromEntries(Array.from({ length: 20001 }, (_, n) => [`d${n % 100}/f${n}`, "x"]));
  await packing.scan(tree(names)).then(() => console.log("20,001 files are packed"), (e) => e.message === "many" || console.log(e));

  const text = JSON.parse(fs.readFileSync(folder, "utf8"));
  const found = await packing.scan(tree(text));
  let told = 0;
  fs.writeFileSync(zip, Buffer.from(await (await packing.zip(found.files, (n) => { told += n; })).arrayBuffer()));
  const size = Object.values(text).reduce((n, t) => n + Buffer.byteLength(t), 0);
  if (told !== size) console.log(`told of ${told} bytes, want ${size}`);
})().catch((e) => console.log(e));
