// A program that prints a line four times a second.
const VERSION = 1;
console.log(`version ${VERSION}`);
let ticks = 0;
setInterval(() => console.log(`tick ${++ticks}`), 250);
process.on("SIGTERM", () => process.exit(0));
