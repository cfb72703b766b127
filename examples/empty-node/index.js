// The variables of the page "Environment" are in process.env.
const token = process.env.TOKEN;
if (!token) {
  console.error('TOKEN is not set: set it on the page "Environment", then start the bot.');
  process.exit(1);
}

// Packages are installed when they are named in package.json, for example
//   "dependencies": { "discord.js": "^14" }
// and the file is deployed with a new version.

console.log('The bot is running.');
setInterval(() => {}, 60 * 60 * 1000); // it stays until it is stopped

process.on('SIGTERM', () => {
  console.log('The bot stops.');
  process.exit(0);
});
