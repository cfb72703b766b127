// A program that behaves as a chat bot does, without a network: it says who it
// is, gives a sign of life every few seconds, and leaves when it is asked to.

const VERSION = 1; // change it and commit: the next start prints the new one

const SECONDS = 5;
let ticks = 0;

console.log(`node-bot version ${VERSION}, Node.js ${process.version}, pid ${process.pid}`);

const timer = setInterval(() => {
  ticks += 1;
  const mb = (process.memoryUsage().rss / 2 ** 20).toFixed(1);
  console.log(`tick ${ticks}: ${mb} MB in use`);
}, SECONDS * 1000);

// A stop sends SIGTERM. Whoever does not leave in time is killed, so there is
// nothing to do here but put things away.
for (const signal of ['SIGTERM', 'SIGINT']) {
  process.on(signal, () => {
    clearInterval(timer);
    console.log(`${signal} after ${ticks} ticks: goodbye`);
    process.exitCode = 0;
  });
}
