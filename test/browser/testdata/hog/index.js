// A program that needs 272 MB more than Node.js itself, soon after its start.
console.log("begins");
setTimeout(() => {
  globalThis.kept = Buffer.alloc(272 << 20, 1);
  console.log("has all it needs");
}, 1500);
setInterval(() => {}, 1000);
