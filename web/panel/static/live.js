// Live pages: one stream of events for the page while somebody sees it.
// What changes the page is told by number; the page's parts, which the server has
// made, are then fetched again, so that no update can be lost or half shown.
"use strict";

(() => {
  const live = document.getElementById("live");
  if (!live || !window.EventSource || !window.fetch) return;

  let source, timer, tries = 0;
  let last = live.dataset.last; // the newest event that the page knows

  const tell = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));

  // note says why the page stands still; "" takes it back.
  function note(text) {
    live.querySelector("p").textContent = text;
    live.firstElementChild.hidden = !text;
  }

  // What a frame brings.
  const frames = {
    begun: () => { note(""); tries = 0; tell("live:begun"); },
    changed: () => refresh(),
    elsewhere: () => refresh(10000), // of a list, what this page does not show
    figures: (data) => { figures(data); tell("live:figures", data); },
    lines: (data) => tell("live:lines", data),
    refused: (data) => { note(data.text); close(); later(); },
  };

  function open() {
    clearTimeout(timer);
    if (source || document.hidden) return;
    source = new EventSource(live.dataset.stream + "&last=" + encodeURIComponent(last));
    for (const [name, act] of Object.entries(frames)) {
      source.addEventListener(name, (event) => {
        last = event.lastEventId || last;
        act(JSON.parse(event.data));
      });
    }
    source.onerror = () => { // else the browser comes again by itself
      if (source?.readyState !== EventSource.CLOSED) return;
      close();
      refresh(); // which finds out if the session is over
      later();
    };
  }

  function close() {
    source?.close();
    source = undefined;
  }

  function later() {
    clearTimeout(timer);
    timer = setTimeout(open, Math.min(60, 5 * 2 ** tries++) * 1000);
  }

  // A page that nobody sees costs nothing.
  document.addEventListener("visibilitychange", () => document.hidden ? close() : open());
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);

  // figures puts what an application uses in its places.
  function figures(data) {
    for (const box of document.querySelectorAll(`[data-figures="${CSS.escape(data.app)}"]`)) {
      for (const place of box.querySelectorAll("[data-word]")) {
        place.textContent = data.words[place.dataset.word] ?? place.textContent;
      }
      const bar = box.querySelector("svg.meter");
      if (!bar) continue;
      bar.querySelector(".fill").setAttribute("width", data.full);
      bar.setAttribute("aria-label", data.words.full);
      bar.classList.toggle("full", data.full >= 90);
    }
  }

  const shown = new Map(); // what the server has made of each part
  for (const part of document.querySelectorAll("[data-part]")) shown.set(part.dataset.part, part.innerHTML);

  let due, dueAt = Infinity, busy = false, again = false;
  function refresh(wait = 150) { // many events at once are one look
    const at = performance.now() + wait;
    if (wait > 150 && at >= dueAt) return; // there is one soon
    clearTimeout(due);
    dueAt = at;
    due = setTimeout(look, wait);
  }

  async function look() {
    dueAt = Infinity;
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (answer.redirected || answer.status === 401 || answer.status === 403) return location.reload();
      if (answer.status === 404) return location.assign("/"); // it was removed
      if (answer.ok) swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch {
      later(); // there is no server now
    } finally {
      busy = false;
      if (again) refresh();
      again = false;
    }
  }

  // swap puts those parts in place that have changed, and the focus where it was.
  function swap(page) {
    for (const fresh of page.querySelectorAll("[data-part]")) {
      const name = fresh.dataset.part;
      const old = document.querySelector(`[data-part="${CSS.escape(name)}"]`);
      if (!old || (shown.get(name) === fresh.innerHTML && old.className === fresh.className)) continue;
      shown.set(name, fresh.innerHTML);
      const focus = old.contains(document.activeElement) ? nameOf(document.activeElement) : "";
      const boxes = new Set(Array.from(old.querySelectorAll("input:checked"), (box) => box.value));
      old.replaceWith(document.adoptNode(fresh));
      for (const box of boxes.size ? fresh.querySelectorAll("input[type=checkbox]") : []) box.checked = boxes.has(box.value);
      if (focus) document.querySelector(focus)?.focus({ preventScroll: true });
    }
    const stream = page.getElementById("live")?.dataset.stream;
    if (stream && stream !== live.dataset.stream) { // another page of a list is shown, as it is sorted now
      live.dataset.stream = stream;
      close();
      open();
    }
    tell("live:changed", page);
  }

  function nameOf(element) {
    if (element.id) return "#" + CSS.escape(element.id);
    if (element.type === "checkbox") return `input[name="${CSS.escape(element.name)}"][value="${CSS.escape(element.value)}"]`;
    if (element.form) return `form[action="${CSS.escape(element.form.getAttribute("action"))}"] ${element.localName}`;
    return element.localName === "a" ? `a[href="${CSS.escape(element.getAttribute("href"))}"]` : "";
  }

  open();
})();
