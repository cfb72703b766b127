// A program that needs 246 MB more than Node.js itself, soon after its start.
console.log("begins");
setTimeout(() => {
  globalThis.kept = Buffer.alloc(246 << 20, 1);
  console.log("has all it needs");
}, 1500);
setInterval(() => {}, 1000);
