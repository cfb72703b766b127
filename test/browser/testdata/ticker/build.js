// A build that takes three seconds, and says how far it is.
let step = 0;
const timer = setInterval(() => {
  console.log(`build step ${++step}`);
  if (step === 6) clearInterval(timer);
}, 500);
