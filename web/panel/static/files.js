// Uploads on the page of a directory: with a bar that fills, and of what is dropped on it, folders with all that is
// in them. Where this does not run, the forms are sent as any other.
"use strict";

let waiting = []; // [path, File] of the last upload of many, which can be sent once more

// sends posts what a form has and shows the page that comes of it in place of this one: a redirect of a
// script's request would show elsewhere what is shown once.
function sends(form, files, replace) {
  const bar = form.querySelector("progress"), sending = form.querySelector(".sending"), notice = form.querySelector(".notice");
  const percent = sending.querySelector("p"), words = percent.dataset.percent;
  const body = new FormData();
  if (replace) body.append("replace", "true"); // before the files, or it would be read too late
  for (const [path, file] of files) body.append("file", file, path);
  form.dataset.sent = "1";
  notice.hidden = true;
  sending.hidden = false;
  bar.value = 0;
  percent.textContent = words.replace("0", 0);
  sending.scrollIntoView({ block: "nearest" });
  const over = (why) => {
    delete form.dataset.sent;
    sending.hidden = true;
    notice.hidden = !why;
    notice.querySelector("p").textContent = why;
  };
  const request = new XMLHttpRequest();
  request.upload.addEventListener("progress", (e) => {
    if (!e.lengthComputable) return;
    bar.value = Math.floor(100 * e.loaded / e.total);
    percent.textContent = words.replace("0", bar.value);
  });
  request.addEventListener("error", () => over(form.dataset.broken));
  request.addEventListener("load", () => {
    const next = new DOMParser().parseFromString(request.responseText, "text/html").querySelector("main");
    const why = next?.querySelector(".notice.bad[role=alert]:not([hidden]) p, .narrow p")?.textContent;
    if (!next?.querySelector("form[data-many]")) {
      over(why || form.dataset.broken);
      return;
    }
    document.querySelector("main").replaceWith(next);
    if (request.status < 400) waiting = [];
    begin();
    next.focus();
    (next.querySelector(".refused") || next).scrollIntoView();
  });
  request.open("POST", form.action);
  request.send(body);
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("form[data-send]")) return;
  event.preventDefault();
  event.stopPropagation();
  if (form.dataset.sent) return;
  const files = [...form.querySelectorAll("input[type=file]")].flatMap((input) => [...input.files].map((file) => [file.webkitRelativePath || file.name, file]));
  const many = "many" in form.dataset;
  if (many) waiting = files;
  if (files.length) sends(form, files, form.querySelector("[name=replace]").checked);
  else form.querySelector("input[type=file]").focus();
}, true);

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-again]") && waiting.length) sends(document.querySelector("form[data-many]"), waiting, true);
});

// What begins anew with each page that is shown.
function begin() {
  for (const word of document.querySelectorAll("[data-droppable]")) word.hidden = false;
  for (const button of document.querySelectorAll("[data-again]")) button.hidden = !waiting.length;
}
begin();

// walk finds the files of what was dropped: [path, File] each.
async function walk(entry, path, found) {
  if (entry.isFile) {
    found.push([path + entry.name, await new Promise((done, failed) => entry.file(done, failed))]);
    return;
  }
  const reader = entry.createReader();
  for (;;) { // a reader gives a hundred at a time
    const some = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!some.length) return;
    for (const below of some) await walk(below, path + entry.name + "/", found);
  }
}

const carries = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
const hovers = (on) => document.documentElement.classList.toggle("dropping", on);
addEventListener("dragover", (event) => {
  if (!carries(event)) return;
  event.preventDefault();
  hovers(true);
});
addEventListener("dragleave", (event) => { if (!event.relatedTarget) hovers(false); });
addEventListener("drop", async (event) => {
  const form = document.querySelector("form[data-many]");
  if (!carries(event) || !form) return;
  event.preventDefault();
  hovers(false);
  if (form.dataset.sent) return;
  // Both before anything is waited for.
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const found = entries.length ? [] : [...event.dataTransfer.files].map((file) => [file.name, file]);
  try {
    for (const entry of entries) await walk(entry, "", found);
  } catch {
    return; // it vanished meanwhile
  }
  if (!found.length) return;
  waiting = found;
  sends(form, found, form.querySelector("[name=replace]").checked);
});
