// Small helps that a page does without: everything here works by forms alone.
"use strict";

// The key of what this page has shown once is of no more use: nobody keeps it, or
// sends it on.
const address = new URL(location.href);
if (address.searchParams.has("once")) {
  address.searchParams.delete("once");
  history.replaceState(history.state, "", address);
}

// A page that is shown at the address of a refused form has its own for what asks for it again.
if (document.body.dataset.page) history.replaceState(history.state, "", document.body.dataset.page);

// Copy buttons appear only where something can copy.
const copyable = "button[data-copy], button[data-copied]";
function showCopyButtons() {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll(copyable)) button.hidden = false;
}
showCopyButtons();
document.addEventListener("live:changed", showCopyButtons);
document.addEventListener("click", async (event) => {
  const button = event.target.closest(copyable);
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copied ?? document.getElementById(button.dataset.copy).value);
  const word = button.querySelector("span");
  if (word) word.textContent = button.dataset.done;
  else {
    button.title = button.dataset.done;
    button.setAttribute("aria-label", button.dataset.done);
    button.classList.add("done");
  }
});
for (const field of document.querySelectorAll("input[readonly]")) {
  field.addEventListener("focus", () => field.select());
}

// The title of a time has it in the reader's zone, and names that. So does the text, where
// the page has more than how long ago it was.
function clocks() {
  const lang = document.documentElement.lang;
  const minute = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short" };
  for (const time of document.querySelectorAll("main > :not(.log-card) time[datetime]")) {
    const at = new Date(time.dateTime);
    if (isNaN(at)) continue;
    time.title = at.toLocaleString(lang, { dateStyle: "medium", timeStyle: "long" });
    const day = Date.now() - at < 12 * 3600e3 ? {} : { day: "2-digit", month: "2-digit" };
    if ("clock" in time.dataset) time.textContent = at.toLocaleString(lang, { ...day, hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    if ("moment" in time.dataset) time.textContent = at.toLocaleString(lang, minute);
    if (time.closest(".log")) time.textContent = at.toLocaleTimeString(lang, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
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
  for (const item of document.querySelectorAll("#apps [data-sieved]")) {
    item.hidden = !item.dataset.sieved.toLowerCase().includes(want);
  }
}
if (sieve) {
  sieve.addEventListener("input", sift);
  document.addEventListener("live:changed", sift);
}

// How many of a list are chosen, and what can be done once some are.
const chosen = document.querySelector(".deeds#chosen"); // the files have a form of that name too
function count() {
  const boxes = [...document.querySelectorAll('#apps input[form="chosen"]')].filter((box) => !box.closest("[hidden]"));
  const n = boxes.filter((box) => box.checked).length, every = document.getElementById("every"), said = document.getElementById("how-many");
  every.checked = n > 0 && n === boxes.length;
  every.indeterminate = n > 0 && n < boxes.length;
  const words = n ? said.dataset.some.replace("1", n) : said.dataset.none;
  if (said.textContent !== words) said.textContent = words;
  for (const button of chosen.querySelectorAll("button")) button.disabled = !n;
}
const every = document.getElementById("every"); // the page of files has other things to choose
if (chosen && every) {
  every.parentElement.hidden = false;
  every.addEventListener("change", () => {
    for (const box of document.querySelectorAll('#apps input[form="chosen"]')) box.checked = every.checked && !box.closest("[hidden]");
    count();
  });
  document.addEventListener("change", (event) => event.target.form === chosen && event.target !== every && count());
  document.addEventListener("live:changed", count);
  sieve?.addEventListener("input", () => {
    for (const box of document.querySelectorAll("#apps [hidden] input:checked")) box.checked = false; // what is not seen is not meant
    count();
  });
  addEventListener("pageshow", count);
  count();
}

// The palette and the list of keys. Its script comes when somebody wants it.
const palette = document.getElementById("palette"), keys = document.getElementById("keys");
async function find() {
  if (palette.open || document.querySelector("dialog[open]")) return;
  (await import(palette.dataset.module)).open(palette);
}
function types(element) {
  return element?.isContentEditable || element?.localName === "textarea" || element?.localName === "select" ||
    (element?.localName === "input" && !["checkbox", "radio", "button", "submit"].includes(element.type));
}
if (palette && window.HTMLDialogElement) {
  const button = document.getElementById("find"), help = document.getElementById("show-keys");
  button.hidden = help.hidden = false;
  button.addEventListener("click", find);
  help.addEventListener("click", () => keys.showModal());
  for (const dialog of [palette, keys]) {
    dialog.addEventListener("click", (event) => (event.target === dialog || event.target.closest("[data-close]")) && dialog.close());
  }
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      find();
      return;
    }
    const typed = event.getModifierState("AltGraph"); // with which some keyboards have these
    const focused = event.composedPath()[0]; // of the editor, whose shadow root event.target does not look into
    if ((event.ctrlKey || event.metaKey || event.altKey) && !typed || palette.dataset.keys === "off" || types(focused) || document.querySelector("dialog[open]")) return;
    if (event.key === "/") find();
    else if (event.key === "?") keys.showModal();
    else return;
    event.preventDefault();
  });
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

// An upload is sent with a bar that fills; what comes of it is a page of its own.
// Where this does not run, the form is sent as any other.
for (const form of document.querySelectorAll("form[data-upload]")) {
  const bar = form.querySelector("progress"), sending = form.querySelector(".sending"), notice = form.querySelector(".notice");
  const percent = sending.querySelector("p");
  const tell = (words, share) => {
    bar.value = share;
    percent.textContent = words.replace("0", share);
  };
  const failed = (why) => {
    sending.hidden = true;
    notice.hidden = false;
    notice.querySelector("p").textContent = why;
    delete form.dataset.sent;
    for (const b of form.querySelectorAll("[aria-busy]")) b.removeAttribute("aria-busy");
  };
  form.addEventListener("submit", async (event) => {
    if (event.defaultPrevented || form.dataset.sent) return;
    event.preventDefault();
    event.stopPropagation();
    form.dataset.sent = "1";
    notice.hidden = true;
    sending.hidden = false;
    const body = new FormData(form);
    if (form.pack) { // a folder, see pack.js
      try {
        body.set("file", await form.pack((share) => tell(percent.dataset.packs, share)));
      } catch (e) {
        failed("");
        form.failed(e.message);
        return;
      }
    }
    const request = new XMLHttpRequest();
    request.upload.addEventListener("progress", (e) => {
      if (e.lengthComputable) tell(percent.dataset.percent, Math.floor(100 * e.loaded / e.total));
    });
    request.addEventListener("load", () => {
      if (request.status < 400) {
        location.assign(request.responseURL);
        return;
      }
      const page = new DOMParser().parseFromString(request.responseText, "text/html");
      failed(page.querySelector('main > .notice.bad[role="alert"] p, main .narrow p')?.textContent || form.dataset.broken);
    });
    request.addEventListener("error", () => failed(form.dataset.broken));
    request.open("POST", form.action);
    request.send(body);
  });
}

// A file may be dropped anywhere on a page with a place for it.
const place = document.querySelector("form[data-drop]");
if (place) {
  const files = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
  const over = (on) => document.documentElement.classList.toggle("dropping", on);
  addEventListener("dragover", (event) => {
    if (!files(event)) return;
    event.preventDefault();
    over(true);
  });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) over(false); });
  addEventListener("drop", (event) => {
    if (!files(event)) return;
    event.preventDefault();
    over(false);
    if (place.dataset.sent) return;
    const area = place.closest("details");
    if (area) area.open = true;
    if (place.take?.(event.dataTransfer) || event.dataTransfer.files.length !== 1) return;
    place.querySelector("input[name=file]").files = event.dataTransfer.files;
    place.requestSubmit();
  });
}

// What is under way is looked at again while somebody looks at the page.
const again = async () => {
  const part = document.querySelector("[data-poll]");
  if (!part) return;
  if (!document.hidden) {
    try {
      const answer = await fetch(location.pathname);
      const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
      if (!next) location.reload();
      else if (next.innerHTML !== part.innerHTML) {
        const output = part.querySelector("pre"), end = !output || output.scrollTop + output.clientHeight >= output.scrollHeight - 8, top = output?.scrollTop;
        part.replaceWith(next);
        clocks();
        const shown = next.querySelector("pre");
        if (shown) shown.scrollTop = end ? shown.scrollHeight : top;
      }
    } catch { /* the server is away; it is asked again */ }
  }
  setTimeout(again, 1500);
};
setTimeout(again, 1000);
