// A folder that is chosen or dropped is packed into a ZIP here, as berth deploy packs one:
// files/bundle says what is left out (ignore.go, pack.go, leftover.go), and its testdata/packing.json
// holds both to the same cases.
"use strict";

const packing = (() => {
  const mostFiles = 20000, mostSeen = 200000, ahead = 16;
  const ignoreNames = [".gitignore", ".discloudignore"];
  const useless = new Set([".git", ".hg", ".svn", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".parcel-cache"]);
  const others = /\.(py|go|rs|jar|php|rb|sh)$/i;
  const exampleEnv = /\.(example|sample|template|dist|defaults)$/;
  const variables = ".berth/env";

  // Patterns of gitignore(5) as regular expressions.
  const literal = (c) => c.replace(/[\\^$.*+?()[\]{}|/]/gu, "\\$&");
  function setEnd(rest) {
    const first = rest[1] === "!" || rest[1] === "^" ? 2 : 1;
    for (let i = first; i < rest.length; i++) {
      if (rest[i] === "\\") i++;
      else if (rest[i] === "]" && i > first) return i;
    }
    return 0;
  }
  function ignoreSet(inner) {
    let made = "[", escaped = false;
    if (/^[!^]/.test(inner)) {
      made += "^/";
      inner = inner.slice(1);
    }
    for (const c of inner) {
      if (c === "\\" && !escaped) {
        escaped = true;
        continue;
      }
      made += "\\[]^".includes(c) || escaped && c === "-" ? "\\" + c : c;
      escaped = false;
    }
    return made + "]";
  }
  function ignorePattern(line) {
    let made = line.includes("/") ? "^" : "^(?:.*/)?";
    line = line.replace(/^\//, "");
    for (let i = 0; i < line.length;) {
      const rest = line.slice(i), begins = i === 0 || line[i - 1] === "/", end = rest[0] === "[" ? setEnd(rest) : 0;
      if (rest.startsWith("**/") && begins) [made, i] = [made + "(?:.*/)?", i + 3];
      else if (rest === "**" && begins) [made, i] = [made + ".+", i + 2];
      else if (rest[0] === "*") [made, i] = [made + "[^/]*", i + 1];
      else if (rest[0] === "?") [made, i] = [made + "[^/]", i + 1];
      else if (rest[0] === "\\" && rest.length > 1) [made, i] = [made + literal(rest[1]), i + 2];
      else if (end) [made, i] = [made + ignoreSet(rest.slice(1, end)), i + end + 1];
      else {
        const c = String.fromCodePoint(rest.codePointAt(0));
        [made, i] = [made + literal(c), i + c.length];
      }
    }
    return made + "$";
  }
  function rulesOf(base, text) {
    const rules = [];
    for (let line of text.replace(/^\ufeff/, "").split("\n")) {
      line = line.replace(/[\r\n]+$/, "");
      if (!line.endsWith("\\ ")) line = line.replace(/[ \t]+$/, "");
      if (!line || line[0] === "#") continue;
      const keep = line[0] === "!", onlyIn = line.endsWith("/");
      line = line.slice(keep ? 1 : 0).replace(/\/+$/, "");
      try {
        if (line) rules.push({ base, keep, onlyIn, match: new RegExp(ignorePattern(line), "su") });
      } catch { /* git passes over what it cannot read */ }
    }
    return rules;
  }
  function ignores(rules, name, dir) {
    const rule = rules.findLast((r) => name.startsWith(r.base) && (dir || !r.onlyIn) && r.match.test(name.slice(r.base.length)));
    return rule !== undefined && !rule.keep;
  }

  const secret = (name) => (name === ".env" || name.startsWith(".env.")) && !exampleEnv.test(name);
  const textOf = async (node) => (await node.file()).text();

  // Which of the directories in a path no program needs; the file with the variables of a backup.
  function uselessIn(part) {
    if (!part.dir && ("/" + part.name).endsWith("/" + variables)) return variables;
    const names = part.name.split("/");
    return names.find((n, i) => useless.has(n) && (i < names.length - 1 || part.dir)) ?? "";
  }

  // A node is {name, dir, list()} or {name, file()}. scan returns what is to be sent of a
  // directory: {files: [{name, node, dir}], left: Map of names to reasons, ignored, env}.
  async function scan(root) {
    const parts = [], later = new Map(), left = new Map();
    const found = { files: parts, left, ignored: 0, env: null };
    let seen = 0;
    async function walk(node, path, above, late) {
      const base = path ? path + "/" : "", list = (await node.list()).sort((a, b) => a.name < b.name ? -1 : 1);
      const rules = [...above];
      for (const name of ignoreNames) {
        const file = list.find((n) => n.name === name && !n.dir);
        if (file) rules.push(...rulesOf(base, await textOf(file)));
      }
      // What is nearly always left out is looked into only if it is not: it may hold most files.
      const depth = base.split("/").length - 1, own = path.slice(path.lastIndexOf("/") + 1);
      const venv = list.some((n) => n.name === "pyvenv.cfg" && !n.dir);
      if (!late && path && (useless.has(own) || depth <= 2 && (own === "node_modules" || own === "target" || venv))) {
        later.set(path, { node, above });
        parts.push({ name: path, dir: true, of: path }, ...list.filter((n) => !n.dir).map((n) => ({ name: base + n.name, node: n, of: path })));
        return;
      }
      let some = false;
      for (const n of list) {
        const name = base + n.name;
        if (++seen > mostSeen) throw new Error("many");
        if (n.name === ".env" && !base && !n.dir) found.env = n;
        if (ignores(rules, name, n.dir)) {
          found.ignored++;
          left.set(name + (n.dir ? "/" : ""), "ignored");
          continue;
        }
        some = true;
        if (n.dir && n.name === ".git") left.set(name + "/", "useless");
        else if (n.dir) await walk(n, name, rules, late);
        else if (ignoreNames.includes(n.name)) continue;
        else if (secret(n.name)) left.set(name, "secret");
        else parts.push({ name, node: n });
      }
      if (!some && base) parts.push({ name: path, dir: true });
    }
    await walk(root, "", [], false);
    const gone = await skip(parts, left);
    for (const [path, { node, above }] of later) {
      if (gone(parts.find((p) => p.of === path))) continue;
      const from = parts.length;
      await walk(node, path, above, true);
      parts.push(...parts.splice(from).filter((p) => !gone(p)));
      later.set(path, null);
    }
    found.files = parts.filter((p) => !p.of && !gone(p)).sort((a, b) => a.name < b.name ? -1 : 1);
    if (found.files.length > mostFiles) throw new Error("many");
    return found;
  }

  // skip returns a function that says whether a part is left out, as the server would, and notes why.
  async function skip(parts, left) {
    const kept = parts.filter((p) => !uselessIn(p));
    const proper = kept.filter((p) => !p.name.split("/").includes("__MACOSX") && !/(^|\/)\.DS_Store$/.test(p.name));
    const first = proper[0]?.name.split("/")[0];
    const folder = first !== undefined && proper.every((p) => p.name.startsWith(first + "/") || p.name === first && p.dir) ? first + "/" : "";
    const inner = (p) => p.name.startsWith(folder) ? p.name.slice(folder.length) : p.name.split("/").slice(1).join("/");
    const files = new Map(kept.filter((p) => !p.dir).map((p) => [inner(p), p]));
    const has = (...names) => names.some((n) => files.has(n));

    const cfg = new Map();
    let pkg = {};
    if (has("discloud.config")) {
      for (const line of (await textOf(files.get("discloud.config").node)).split("\n")) {
        const [key, ...value] = line.replace(/\s*#.*/, "").split("=");
        if (!cfg.has(key.trim().toUpperCase())) cfg.set(key.trim().toUpperCase(), value.join("=").trim());
      }
    }
    const main = (cfg.get("MAIN") ?? "").replaceAll("\\", "/").replace(/^(\.\/+)+/, ""), start = cfg.get("START") ?? "", build = cfg.get("BUILD") ?? "";
    try {
      if (has("package.json")) pkg = JSON.parse(await textOf(files.get("package.json").node)) ?? {};
    } catch { /* one that is no manifest says nothing */ }
    const said = new Set(JSON.stringify(pkg.scripts ?? "").match(/[_\p{L}\p{Nd}]+/gu));
    const isMain = (...ends) => !main || ends.includes(main.match(/\.[^./]*$/)?.[0].toLowerCase());

    const javaScript = main ? isMain(".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx")
      : ![...files.keys()].some((n) => others.test(n) && /^(src\/)?[^/]*$/.test(n)) && !has("pyproject.toml", "requirements.txt", "Cargo.toml", "go.mod", "composer.json", "Gemfile");
    const count = (of) => of && typeof of === "object" && !Array.isArray(of) ? Object.keys(of).length : 0;
    const made = new Map();
    const mark = (dir, why) => {
      const mentioned = dir !== "node_modules" && (start + "\n" + build).includes(dir);
      if (!mentioned && !main.startsWith(dir + "/")) made.set(dir, why);
    };
    if (javaScript && !has("deno.json", "deno.jsonc", "deno.lock") && count(pkg.dependencies) + count(pkg.optionalDependencies) > 0) mark("node_modules", "modules");
    const rust = isMain(".rs", ".toml") && (main || !has("package.json"));
    if (rust && !start && has("Cargo.toml") && has("target/CACHEDIR.TAG", "target/.rustc_info.json")) mark("target", "target");
    if (isMain(".py") && has("requirements.txt", "pyproject.toml")) {
      for (const name of files.keys()) if (/^[^/]+\/pyvenv\.cfg$/.test(name)) mark(name.split("/")[0], "venv");
    }
    const uses = (dir) => dir !== variables && (said.has(dir.replace(/^\./, "")) || (main + "\n" + start + "\n" + build).includes(dir.replace(/^\./, "")));
    return (p) => {
      const no = uselessIn(p), names = inner(p).split("/");
      if (no && (folder && !p.name.startsWith(folder) || !uses(no))) {
        left.set(no === variables ? no : no + "/", no === variables ? "variables" : "useless");
        return true;
      }
      if (no || !made.has(names[0]) || names.length === 1 && !p.dir) return false;
      left.set(names[0] + "/", made.get(names[0]));
      return true;
    };
  }

  const crcs = Uint32Array.from({ length: 256 }, (_, n) => {
    for (let i = 0; i < 8; i++) n = n & 1 ? n >>> 1 ^ 0xedb88320 : n >>> 1;
    return n;
  });

  // squeeze returns a file as it stands in a ZIP. Of a large one nothing is held in memory but pieces:
  // the browser keeps large blobs on the disk.
  async function squeeze(file, tell) {
    let crc = -1, size = 0;
    const count = (piece) => {
      for (let i = 0; i < piece.length; i++) crc = crcs[(crc ^ piece[i]) & 255] ^ crc >>> 8;
      size += piece.length;
      tell(piece.length);
    };
    let from = file;
    if (file.size <= 1 << 20) { // one piece is quicker than a stream of them
      const piece = new Uint8Array(await file.arrayBuffer());
      count(piece);
      from = new Blob([piece]);
    }
    const counted = from !== file ? from.stream() : file.stream().pipeThrough(new TransformStream({
      transform(piece, to) {
        count(piece);
        to.enqueue(piece);
      },
    }));
    const small = file.size < 128 ? from : await new Response(counted.pipeThrough(new CompressionStream("deflate-raw"))).blob();
    if (size !== file.size) throw new Error("unread");
    return { crc: ~crc >>> 0, size, method: small.size < size ? 8 : 0, data: small.size < size ? small : from };
  }

  // zip packs what scan has found; tell hears of bytes that are packed.
  async function zip(files, tell = () => {}) {
    const body = [], directory = [], text = new TextEncoder();
    let at = 0, listed = 0;
    const ready = new Map(); // some files are read ahead
    const begin = (n) => {
      const one = (async ({ node, dir }) => {
        const file = dir ? new File([], "") : await node.file();
        return [file, file.size ? await squeeze(file, tell) : { crc: 0, size: 0, method: 0, data: file }];
      })(files[n]);
      one.catch(() => {}); // it is asked for below
      ready.set(n, one);
    };
    for (let n = 0; n < Math.min(files.length, ahead); n++) begin(n);
    for (const [n, { name, dir }] of files.entries()) {
      const [file, packed] = await ready.get(n), path = text.encode(dir ? name + "/" : name);
      ready.delete(n);
      if (n + ahead < files.length) begin(n + ahead);
      const when = new Date(Math.min(Math.max(file.lastModified, Date.UTC(1980)), Date.UTC(2107)));
      const head = new DataView(new ArrayBuffer(26)); // what both headers have
      const put = [20, 0x800, packed.method, when.getUTCHours() << 11 | when.getUTCMinutes() << 5 | when.getUTCSeconds() >> 1,
        when.getUTCFullYear() - 1980 << 9 | when.getUTCMonth() + 1 << 5 | when.getUTCDate()];
      put.forEach((v, i) => head.setUint16(2 * i, v, true));
      [packed.crc, packed.data.size, packed.size].forEach((v, i) => head.setUint32(10 + 4 * i, v, true));
      head.setUint16(22, path.length, true);
      const more = new DataView(new ArrayBuffer(14)); // of the directory alone
      more.setUint32(6, (dir ? 0o40755 * 65536 + 16 : 0o100644 * 65536), true);
      more.setUint32(10, at, true);
      body.push(Uint8Array.of(80, 75, 3, 4), head, path, packed.data);
      directory.push(Uint8Array.of(80, 75, 1, 2, 20, 3), head, more, path);
      at += 30 + path.length + packed.data.size;
      listed += 46 + path.length;
      if (at > 0xf0000000) throw new Error("large");
    }
    const end = new DataView(new ArrayBuffer(22));
    end.setUint32(0, 0x06054b50, true);
    [files.length, files.length].forEach((v, i) => end.setUint16(8 + 2 * i, v, true));
    [listed, at].forEach((v, i) => end.setUint32(12 + 4 * i, v, true));
    return new Blob([...body, ...directory, end], { type: "application/zip" });
  }

  // Nodes of what a browser offers: a list of files with their paths, and dropped entries.
  function treeOf(files) {
    const root = { name: "", dir: true, all: new Map() };
    for (const file of files) {
      const names = file.webkitRelativePath.split("/").slice(1);
      let at = root;
      for (const name of names.slice(0, -1)) {
        if (!at.all.has(name)) at.all.set(name, { name, dir: true, all: new Map() });
        at = at.all.get(name);
      }
      at.all.set(names.at(-1), { name: names.at(-1), file: async () => file });
    }
    const lists = (node) => {
      if (!node.dir) return;
      node.list = async () => [...node.all.values()];
      node.all.forEach(lists);
    };
    lists(root);
    return root;
  }
  const nodeOf = (entry) => entry.isDirectory ? {
    name: entry.name, dir: true,
    async list() {
      const reader = entry.createReader(), all = [];
      for (;;) {
        const some = await new Promise((done, failed) => reader.readEntries(done, failed));
        if (!some.length) return all.map(nodeOf);
        all.push(...some);
        if (all.length > mostSeen) throw new Error("many");
      }
    },
  } : { name: entry.name, file: () => new Promise((done, failed) => entry.file(done, failed)) };

  return { scan, zip, treeOf, nodeOf };
})();

// The page. Where the browser cannot pack, the form takes a ZIP alone.
const units = ["B", "KB", "MB", "GB"];
function sizeWord(bytes) {
  let unit = 0;
  while (unit < units.length - 1 && bytes >= 1024) [bytes, unit] = [bytes / 1024, unit + 1];
  return bytes.toLocaleString(document.documentElement.lang, { maximumFractionDigits: unit && bytes < 100 ? 1 : 0 }) + " " + units[unit];
}

// What berth sets itself in each program, and refuses from others.
const reserved = /^\s*(export\s+)?(PORT|HOME|TMPDIR|BERTH_\w*)\s*=/;

// The lines of a .env file go into the box; the file is not sent. Those of a folder go away again with it.
function readEnv(form, file, folder) {
  const box = form.querySelector("textarea[name=env]");
  if (!box || file.size > 256 << 10) return Promise.resolve(false);
  return file.text().then((text) => {
    text = text.split("\n").filter((line) => !reserved.test(line)).join("\n");
    if (!/^\s*[^#\s].*=/m.test(text)) return false;
    if (box.value.trim()) text = (box.value.endsWith("\n") ? "" : "\n") + text;
    box.value += text;
    box.closest("details").open = true;
    if (folder) form.unpackEnv = () => { box.value = box.value.replace(text, () => ""); };
    return true;
  });
}

for (const form of document.querySelectorAll("form[data-drop]")) {
  const chosen = form.querySelector("[data-pack-folder]"), input = chosen.querySelector("input"), file = form.querySelector("input[name=file]");
  const shown = form.querySelector("[data-packed]"), env = form.querySelector("[data-env-file]"), notice = form.querySelector(".notice");
  const part = (name) => shown.querySelector(`[data-packed-${name}]`), list = shown.querySelector("ul");
  let turn = 0;

  function forget() {
    turn++;
    form.pack = undefined;
    form.unpackEnv?.();
    form.unpackEnv = undefined;
    shown.hidden = true;
    notice.hidden = true;
    file.required = true;
  }
  function failed(why) {
    forget();
    notice.hidden = false;
    notice.querySelector("p").textContent = shown.dataset[why] ?? shown.dataset.unread;
  }
  // What is left out: names, and why; the first ones, for there may be thousands.
  function showLeft(left) {
    part("left").hidden = !left.size;
    part("count").textContent = `(${left.size.toLocaleString(document.documentElement.lang)})`;
    list.replaceChildren(...[...left].slice(0, 100).map(([name, why]) => {
      const row = document.createElement("li"), code = document.createElement("code");
      code.textContent = name;
      row.append(code, " " + list.dataset[why]);
      return row;
    }));
    if (left.size > 100) list.append("…");
  }
  async function take(root, name) {
    forget();
    const mine = turn;
    shown.hidden = false;
    shown.setAttribute("aria-busy", "true");
    part("name").textContent = shown.dataset.packing + (name ? ": " + name : "");
    part("files").textContent = part("bytes").textContent = "…";
    part("left").hidden = part("env").hidden = true;
    shown.scrollIntoView({ block: "nearest" });
    try {
      const found = await packing.scan(root);
      let bytes = 0;
      for (let n = 0; n < found.files.length; n += 64) {
        const some = found.files.slice(n, n + 64).filter((f) => !f.dir);
        for (const file of await Promise.all(some.map((f) => f.node.file()))) bytes += file.size;
      }
      if (mine !== turn) return;
      if (!found.files.length) throw new Error("empty");
      part("name").textContent = name;
      part("files").textContent = found.files.filter((f) => !f.dir).length.toLocaleString(document.documentElement.lang);
      part("bytes").textContent = sizeWord(bytes);
      showLeft(found.left);
      if (found.env) part("env").hidden = !await readEnv(form, await found.env.file(), true);
      file.value = "";
      file.required = false;
      form.pack = async (tell) => {
        let done = 0;
        const zip = await packing.zip(found.files, (n) => tell(Math.floor(100 * (done += n) / Math.max(bytes, 1))));
        return new File([zip], (name || "upload") + ".zip", { type: "application/zip" });
      };
    } catch (e) {
      if (mine === turn) failed(e.message);
    } finally {
      shown.removeAttribute("aria-busy");
    }
  }
  form.failed = failed;

  if (window.CompressionStream) chosen.hidden = false;
  input.addEventListener("change", () => {
    if (input.files.length) take(packing.treeOf(input.files), input.files[0].webkitRelativePath.split("/")[0]);
  });
  file.addEventListener("change", () => {
    forget();
    input.value = "";
  });
  if (env) {
    env.hidden = false;
    const lines = env.querySelector("input");
    lines.addEventListener("change", async () => {
      if (lines.files.length) await readEnv(form, lines.files[0]);
      lines.value = "";
    });
  }

  // What is dropped: a folder, files, or a .env alone. A ZIP is left to the page.
  form.take = (data) => {
    const entries = [...data.items].map((i) => i.kind === "file" && i.webkitGetAsEntry()).filter(Boolean), only = entries.length === 1 && entries[0];
    if (only && only.isFile && /^\.env(\.|$)|\.env$/.test(only.name) && env) {
      readEnv(form, data.files[0]);
      return true;
    }
    if (!window.CompressionStream || only && only.isFile && /\.(zip|jar)$/i.test(only.name)) return false;
    if (only && only.isDirectory) take(packing.nodeOf(only), only.name);
    else take({ name: "", dir: true, list: async () => entries.map(packing.nodeOf) }, "");
    return true;
  };
}
