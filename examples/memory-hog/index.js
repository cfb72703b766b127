// A program that takes memory until the kernel ends it for its RAM limit.
// Buffers lie outside the JavaScript heap, so no limit of Node.js comes first.
// The bound is there for a host that has no limit set: a gigabyte, then stop.

const STEP_MB = 8;
const BOUND_MB = Number(process.argv[2] ?? 1024);
const PAUSE_MS = 200;
const held = []; // or the collector would give it back

console.log(`memory-hog: ${STEP_MB} MB every ${PAUSE_MS} ms, at most ${BOUND_MB} MB`);

const timer = setInterval(() => {
  // Filling touches every page; memory that is only asked for costs nothing.
  held.push(Buffer.alloc(STEP_MB * 2 ** 20, 1));
  const taken = held.length * STEP_MB;
  const rss = Math.round(process.memoryUsage().rss / 2 ** 20);
  console.log(`${taken} MB taken, ${rss} MB in use`);
  if (taken >= BOUND_MB) {
    console.log('reached the bound: no limit stopped me');
    clearInterval(timer);
    process.exitCode = 1;
  }
}, PAUSE_MS);
