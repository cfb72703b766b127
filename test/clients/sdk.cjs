// Calls methods of the SDK for a test: one JSON line {"method", "args"} in, one
// JSON line {"value"} or {"error", "code"} out. An argument is the base address, in place
// of that of the environment.
const { createInterface } = require("node:readline");
const { DiscloudApp } = require("discloud.app");

const client = new DiscloudApp(process.argv[2] ? { rest: { api: process.argv[2] } } : {});

// Of collections only the content, of the client's own objects no back link.
const plain = (key, value) => {
  if (key === "discloudApp") return undefined;
  if (value instanceof Map) return Object.fromEntries(value);
  if (value instanceof Set) return [...value];
  return value;
};

(async () => {
  for await (const line of createInterface({ input: process.stdin })) {
    const { method, args } = JSON.parse(line);
    let answer;
    try {
      const path = method.split(".");
      const name = path.pop();
      const object = path.reduce((o, key) => o[key], client);
      answer = { value: await object[name](...args) };
    } catch (error) {
      answer = { error: error.message, code: error.code, kind: error.constructor.name };
    }
    console.log(JSON.stringify(answer, plain));
  }
  process.exit(); // the SDK's timer of the rate limit would hold it for a minute
})();
