// Passkeys: a form with data-passkey asks the browser for one, by the options in it, and sends what
// the browser answers. Without scripts, or in a browser without passkeys, it stays hidden.
"use strict";

const toBytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
const toText = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

async function ask(options) {
  options.challenge = toBytes(options.challenge);
  if (!options.user) return navigator.credentials.get({ publicKey: options });
  options.user.id = toBytes(options.user.id);
  for (const known of options.excludeCredentials ?? []) known.id = toBytes(known.id);
  return navigator.credentials.create({ publicKey: options });
}

function answerOf(made) {
  const response = {};
  for (const name of ["clientDataJSON", "authenticatorData", "signature", "userHandle", "attestationObject"]) {
    if (name !== "authenticatorData" || !made.response.attestationObject) {
      if (made.response[name]) response[name] = toText(made.response[name]);
    }
  }
  if (made.response.getTransports) response.transports = made.response.getTransports();
  return JSON.stringify({ id: made.id, rawId: toText(made.rawId), type: made.type, response, clientExtensionResults: {} });
}

if (!window.PublicKeyCredential) for (const note of document.querySelectorAll("[data-no-passkeys]")) note.hidden = false;

for (const form of window.PublicKeyCredential ? document.querySelectorAll("form[data-passkey]") : []) {
  const problem = form.querySelector("[data-problem]");
  form.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    event.stopImmediatePropagation(); // it is not sent yet, and may be tried again
    problem.hidden = true;
    try {
      form.querySelector("[data-answer]").value = answerOf(await ask(JSON.parse(form.dataset.passkey)));
      form.submit();
    } catch (error) {
      problem.dataset.error = error.name;
      problem.textContent = error.name === "InvalidStateError" ? problem.dataset.known : problem.dataset.problem;
      problem.hidden = false;
    }
  });
}
