// The live log: lines, which the server has made, are added at the end of a list.
"use strict";

(() => {
  const log = document.getElementById("log");
  const at = (id) => document.getElementById(id);
  const most = 5000; // lines in the page
  const follow = at("follow"), wrap = at("wrap"), announce = at("announce"), jump = at("jump"), count = at("jump-count"), sieve = at("q");
  document.querySelector("[data-script]").hidden = false;

  // Times are told in the zone of who reads.
  const clock = new Intl.DateTimeFormat(document.documentElement.lang, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }); // hour12: false is 24:05 at midnight for some
  const moment = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "medium", timeStyle: "medium" });
  const date = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "full" });
  function localise(line) {
    const time = line.querySelector("time");
    const when = time && new Date(time.dateTime);
    if (!when || isNaN(when)) return;
    time.textContent = clock.format(when);
    time.title = moment.format(when);
  }

  // Between the lines are rows that tell the day, or what happened.
  const rows = ":scope > :not(.day, .mark)";
  const dayOf = (row) => {
    const when = new Date(row.querySelector("time")?.dateTime);
    return isNaN(when) ? "" : date.format(when);
  };
  function dayRow(row) {
    const fresh = document.createElement("div"), time = document.createElement("time");
    fresh.className = "day";
    time.dateTime = row.querySelector("time").dateTime;
    time.textContent = dayOf(row);
    fresh.append(time);
    return fresh;
  }
  // Days begin where those of the reader do, not those of UTC; from the given row on.
  function days(from) {
    let last = "";
    for (let row = from?.previousElementSibling; row && !last; row = row.previousElementSibling) last = dayOf(row);
    for (let row = from; row; ) {
      const next = row.nextElementSibling;
      if (row.matches(".day")) row.remove();
      else {
        const day = dayOf(row);
        if (day && day !== last) row.before(dayRow(row));
        last = day || last;
      }
      row = next;
    }
  }

  const sifted = (line) => Boolean(sieve.dataset.sieve && sieve.value) && !line.lastElementChild.textContent.toLowerCase().includes(sieve.value.toLowerCase());
  const keyOf = (line) => (line.querySelector("time")?.dateTime ?? "") + line.lastElementChild.textContent;

  // The first lines of a stream are partly those that are here: known tells how many.
  function known(lines) {
    const old = Array.from(log.querySelectorAll(rows), keyOf), fresh = lines.map(keyOf);
    for (let i = Math.max(0, old.length - fresh.length); i < old.length; i++) {
      if (old.slice(i).every((key, n) => key === fresh[n])) return old.length - i;
    }
    return fresh.lastIndexOf(old.at(-1)) + 1; // what a filter has found may be fewer lines than come first
  }

  let missed = 0;
  function add({ fresh, empty, html }) {
    const box = document.createElement("template");
    box.innerHTML = html; // escaped by the server's template
    let lines = Array.from(box.content.children);
    if (fresh) {
      const have = known(lines);
      if (have === 0 && lines.length && "filtered" in log.dataset) {
        // What the filter has found lies further back than what comes first, so the server finds it anew; in a page
        // that it has just made all the same, for then lines come faster than pages.
        if (performance.now() > 10000) return location.reload();
      } else if (have === 0 && (lines.length || empty)) log.replaceChildren();
      lines = lines.slice(have);
    }
    if (lines.length) at("log-empty")?.remove();
    for (const line of lines) {
      localise(line);
      line.hidden = sifted(line);
    }
    log.append(...lines);
    days(lines[0]);
    while (log.childElementCount > most) log.firstElementChild.remove();
    if (lines.length && !log.firstElementChild.matches(".day") && dayOf(log.firstElementChild)) log.prepend(dayRow(log.firstElementChild));
    if (follow.checked) {
      down();
    } else if (lines.length) {
      missed += lines.length;
      count.textContent = missed;
      jump.hidden = false;
    }
  }

  function down() {
    log.scrollTop = log.scrollHeight;
    missed = 0;
    jump.hidden = true;
  }

  // What happened meanwhile stands between the lines, as in the page that the server makes.
  function marks(page) {
    for (const mark of page.querySelectorAll("#log > .mark")) {
      if (log.querySelector(`:scope > [data-mark="${CSS.escape(mark.dataset.mark)}"]`)) continue;
      const at = mark.querySelector("time").dateTime;
      let before = null;
      for (let row = log.lastElementChild; row && (row.querySelector("time")?.dateTime ?? at) >= at; row = row.previousElementSibling) before = row;
      const fresh = document.adoptNode(mark);
      localise(fresh);
      log.insertBefore(fresh, before);
      days(fresh);
    }
    if (follow.checked) down();
  }

  for (const line of log.children) localise(line);
  days(log.firstElementChild);
  // What somebody has chosen stays; where nothing can be kept, it does not.
  const memory = (act) => { try { return act(localStorage); } catch { return null; } };
  wrap.checked = memory((kept) => kept.getItem("berth-wrap")) !== "off";
  const fold = () => log.classList.toggle("long", !wrap.checked);
  wrap.addEventListener("change", () => {
    fold();
    memory((kept) => kept.setItem("berth-wrap", wrap.checked ? "on" : "off"));
    if (follow?.checked) down();
  });
  fold();

  // The fields of the filter are told in the zone of who reads too; addresses have UTC.
  const minute = (when) => new Date(when - when.getTimezoneOffset() * 60e3).toISOString().slice(0, 16);
  for (const field of document.querySelectorAll("input[data-utc]")) {
    if (field.value) field.value = minute(new Date(field.value + "Z"));
    const label = document.querySelector(`label[for="${field.id}"]`);
    label.textContent = label.dataset.local;
  }
  at("log-filter").addEventListener("formdata", ({ formData }) => {
    for (const field of document.querySelectorAll("input[data-utc]")) {
      if (field.value) formData.set(field.name, new Date(field.value).toISOString().slice(0, 16));
    }
    for (const [name, value] of [...formData]) if (!value) formData.delete(name);
  });
  log.scrollTop = log.scrollHeight;
  if (!follow) return; // what a search has found does not go on

  // A line for the program is sent without leaving the page, so that the next one can be typed at once. It goes when the
  // one before it was answered, for the program reads them in their order.
  const form = at("input"), line = at("line"), problem = at("input-problem");
  const unsent = []; // refused while another line was being typed: they stay until they are sent again
  let sending = Promise.resolve();
  function refuse(why) {
    problem.textContent = why;
    for (const text of unsent) {
      const code = document.createElement("code");
      code.textContent = text;
      problem.append(" ", code);
    }
    problem.hidden = false;
  }
  async function send(body, typed) {
    let why = "";
    try {
      const answer = await fetch(form.action, { method: "POST", body, redirect: "manual" });
      if (answer.status === 204) return;
      if (answer.type === "opaqueredirect") location.reload(); // to sign in
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      why = page.querySelector("main > .notice[role=alert] p, main .narrow p")?.textContent;
    } catch { /* told below */ }
    if (line.value === "") line.value = typed;
    else unsent.push(typed);
    refuse(why || problem.dataset.broken);
  }
  form?.addEventListener("submit", (event) => {
    event.preventDefault();
    event.stopPropagation(); // or the form would count as sent
    const body = new URLSearchParams(new FormData(form)), typed = line.value;
    body.set("stay", "");
    line.value = "";
    if (unsent.includes(typed)) unsent.splice(unsent.indexOf(typed), 1);
    if (unsent.length) refuse("");
    else problem.hidden = true;
    line.focus();
    sending = sending.then(() => send(body, typed));
  });

  document.addEventListener("live:lines", (event) => add(event.detail));
  document.addEventListener("live:changed", (event) => { // a build has begun, or has ended
    const now = event.detail.getElementById("log");
    if (now && now.dataset.of !== log.dataset.of) location.reload();
    else marks(event.detail);
  });
  follow.addEventListener("change", () => follow.checked && down());
  jump.addEventListener("click", () => {
    follow.checked = true;
    down();
    log.focus();
  });
  log.addEventListener("scroll", () => {
    follow.checked = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    if (follow.checked) down();
  }, { passive: true });
  announce.addEventListener("change", () => log.setAttribute("aria-live", announce.checked ? "polite" : "off"));
  sieve.addEventListener("input", () => {
    for (const line of log.querySelectorAll(rows)) line.hidden = sifted(line);
    if (follow.checked) down();
  });
})();
