// A program that behaves as a chat bot does, without a network: it says who it
// is, gives a sign of life every few seconds, and leaves when it is asked to.

const VERSION: number = 1; // change it and commit: the next start prints the new one

let ticks = 0;

console.log(`typescript-bot version ${VERSION}, Node.js ${process.version}, pid ${process.pid}`);

const timer: NodeJS.Timeout = setInterval(() => {
  ticks += 1;
  console.log(`tick ${ticks}`);
}, 5000);

const signals: NodeJS.Signals[] = ['SIGTERM', 'SIGINT'];
for (const signal of signals) {
  process.on(signal, () => {
    clearInterval(timer);
    console.log(`${signal} after ${ticks} ticks: goodbye`);
  });
}
