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

// Times are told in the zone of who reads them when one points at them.
for (const time of document.querySelectorAll("time[datetime]")) {
  const at = new Date(time.dateTime);
  if (!isNaN(at)) time.title = at.toLocaleString(document.documentElement.lang);
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
