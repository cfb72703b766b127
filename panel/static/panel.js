// Small helps that a page does without: everything here works by forms alone.
"use strict";

// Copy buttons appear only where something can copy.
for (const button of document.querySelectorAll("button[data-copy]")) {
  const field = document.getElementById(button.dataset.copy);
  if (!field || !navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(field.value);
    button.querySelector("span").textContent = button.dataset.done;
  });
}
for (const field of document.querySelectorAll("input[readonly]")) {
  field.addEventListener("focus", () => field.select());
}

// Times are told in the zone of who reads them when one points at them, and those of
// charts at once.
function clocks() {
  const lang = document.documentElement.lang;
  for (const time of document.querySelectorAll("main > :not(.log-card) time[datetime]")) {
    const at = new Date(time.dateTime);
    if (isNaN(at)) continue;
    time.title = at.toLocaleString(lang);
    const day = Date.now() - at < 12 * 3600e3 ? {} : { day: "2-digit", month: "2-digit" };
    if ("clock" in time.dataset) time.textContent = at.toLocaleString(lang, { ...day, hour: "2-digit", minute: "2-digit", hour12: false });
  }
}
clocks();
document.addEventListener("live:changed", clocks);

// Of tabs that do not fit, the one that is open is seen.
for (const here of document.querySelectorAll(".tabs [aria-current]")) {
  here.parentElement.scrollLeft = here.offsetLeft - here.parentElement.offsetLeft - 48;
}

// A list is sifted while one types; the form does it without scripts.
const sieve = document.querySelector('input[data-sieve="apps"]');
function sift() {
  const want = sieve.value.trim().toLowerCase();
  for (const item of document.querySelectorAll("#apps > [data-sieved]")) {
    item.hidden = !item.dataset.sieved.toLowerCase().includes(want);
  }
}
if (sieve) {
  sieve.addEventListener("input", sift);
  document.addEventListener("live:changed", sift);
}

// A form is sent once: a second click would be refused as under way.
document.addEventListener("submit", (event) => {
  if (event.target.dataset.sent) {
    event.preventDefault();
    return;
  }
  event.target.dataset.sent = "1";
  event.submitter?.setAttribute("aria-busy", "true");
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) {
    delete form.dataset.sent;
    for (const b of form.querySelectorAll("[aria-busy]")) b.removeAttribute("aria-busy");
  }
});
