// A program that uses memory in one of several ways, for Node.js, Deno and Bun.
import { createServer } from "node:http";
import { Buffer } from "node:buffer";
import process from "node:process";

const [work, ram, seconds] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const MB = 1 << 20;
const end = Date.now() + seconds * 1000;
const text = (bytes) => Buffer.alloc(bytes, "x").toString("latin1");
const any = (n) => Math.floor(Math.random() * n);
const fill = (megabytes, each, make) => Array.from({ length: Math.floor((megabytes * MB) / each) }, make);

const member = (id) => ({ id, name: "member " + id, roles: [id, id + 1], joined: Date.now() });
const works = {
  bot() { // members and the last messages of channels, and a message now and then
    const members = new Map(Array.from({ length: 40000 }, (_, id) => [id, member(id)]));
    const channels = Array.from({ length: 20 }, () => []);
    const message = { content: text(1000), author: member(1), embeds: [{ fields: [{ name: "a", value: text(500) }] }] };
    return () => {
      const got = JSON.parse(JSON.stringify(message));
      const channel = channels[any(20)];
      if (channel.push(got) > 200) channel.shift();
      const id = any(40000);
      members.set(id, member(id));
    };
  },
  cache() { // entries that are replaced
    const all = fill(0.42 * ram, 10240, () => ({ at: 0, value: text(10000) }));
    return () => { all[any(all.length)] = { at: Date.now(), value: text(10000) }; };
  },
  garbage() { // what nobody keeps
    return () => { Array.from({ length: 100 }, (_, i) => ({ i, value: text(1000) })); };
  },
  buffers() { // bytes outside the heap
    const all = fill(0.3 * ram, 65536, () => Buffer.alloc(65536, 1));
    return () => { all[any(all.length)] = Buffer.alloc(65536, 1); };
  },
  leak() { // a third of the RAM in a second
    const all = [], began = Date.now();
    return () => {
      const due = ((Date.now() - began) / 1000) * (ram / 3) * MB;
      if (all.length * 10240 < due) all.push({ at: Date.now(), value: text(10000) });
    };
  },
  web() {
    createServer((_, response) => {
      const rows = Array.from({ length: 200 }, (_, i) => ({ i, value: text(100) }));
      response.end(JSON.stringify(rows));
    }).listen(Number(process.env.PORT), "127.0.0.1");
  },
};

let operations = 0;
const step = works[work]();
(function turn() {
  const until = Date.now() + 20;
  while (step && Date.now() < until) { step(); operations++; }
  if (Date.now() < end) return step ? setImmediate(turn) : setTimeout(turn, 50);
  console.log("operations", operations);
  process.exit(0);
})();
