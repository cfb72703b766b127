import {who} from "./who.mjs"; document.querySelector("p").textContent = `${who} at ${location.pathname}`;
