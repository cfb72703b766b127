// The terminal: xterm.js (static/vendor) at one end of a WebSocket, a shell of the application at the
// other. Frames are those of the API's sessions: see docs/api.md.
"use strict";

(async () => {
  const at = (id) => document.getElementById(id);
  const place = at("terminal"), box = at("terminal-box"), state = at("terminal-state"), again = at("terminal-again"), control = document.querySelector("[data-key=control]");
  const [{ Terminal }, { FitAddon }] = await Promise.all([import(place.dataset.xterm), import(place.dataset.fit)]);
  place.hidden = false;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const names = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
  const bright = (name) => "bright" + name[0].toUpperCase() + name.slice(1);
  function theme() {
    return Object.fromEntries([
      ["background", colour("page")], ["foreground", colour("text")], ["cursor", colour("link")], ["cursorAccent", colour("page")],
      ["selectionBackground", colour("half")], ...names.map((name, n) => [name, colour("c" + n)]), ...names.map((name, n) => [bright(name), colour("c" + (n + 8))]),
    ]);
  }

  Terminal.strings.promptLabel = place.dataset.label;
  Terminal.strings.tooMuchOutput = place.dataset.much;
  const term = new Terminal({
    theme: theme(), fontFamily: 'ui-monospace, "SFMono-Regular", "DejaVu Sans Mono", monospace', fontSize: innerWidth < 600 ? 12 : 14,
    scrollback: 5000, lineHeight: 1.15, cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches, minimumContrastRatio: 4.5,
  });
  const fit = new FitAddon();
  term.loadAddon(fit);
  term.open(box);
  fit.fit();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { term.options.theme = theme(); });
  new ResizeObserver(() => fit.fit()).observe(box);

  // A program that prints faster than this draws does not fill the memory of the browser.
  const most = 4 << 20;
  let socket, waiting = 0, dropping = false, refused = false;
  const say = (words) => { state.textContent = words; };
  function print(bytes) {
    if (waiting > most) {
      dropping = true;
      return;
    }
    waiting += bytes.length;
    term.write(bytes, () => {
      waiting -= bytes.length;
      if (dropping && waiting === 0) {
        dropping = false;
        term.write("\r\n[berth] " + place.dataset.dropped + "\r\n");
      }
    });
  }

  function over(words) {
    say(words);
    socket = null;
    again.hidden = false;
    if (box.contains(document.activeElement)) again.focus();
  }

  function heard(mine, text) {
    const { exit, message } = JSON.parse(text);
    if (socket !== mine || !exit && !message) return;
    over(message || place.dataset.ended.replace("0", exit.code) + (exit.reason ? " " + exit.reason[0].toUpperCase() + exit.reason.slice(1) + "." : ""));
    mine.close();
  }

  function connect() {
    again.hidden = true;
    say(place.dataset.opening);
    let opened = false;
    const to = new URL(place.dataset.address, location.href.replace(/^http/, "ws"));
    to.search = new URLSearchParams({ cols: term.cols, rows: term.rows });
    const mine = socket = new WebSocket(to);
    mine.binaryType = "arraybuffer";
    mine.addEventListener("open", () => {
      opened = true;
      say(place.dataset.open);
      resize();
    });
    mine.addEventListener("message", ({ data }) => typeof data === "string" ? heard(mine, data) : print(new Uint8Array(data)));
    mine.addEventListener("close", () => {
      if (socket !== mine) return;
      refused = !opened;
      over(refused ? place.dataset.refused : place.dataset.lost);
    });
    term.focus();
  }

  const open = () => socket?.readyState === WebSocket.OPEN;
  const encoder = new TextEncoder();
  function send(text) {
    if (open()) socket.send(encoder.encode(text));
  }
  function resize() {
    if (open()) socket.send(JSON.stringify({ resize: { cols: term.cols, rows: term.rows } }));
  }
  term.onResize(resize);
  term.onBinary((text) => { if (open()) socket.send(Uint8Array.from(text, (c) => c.charCodeAt(0))); });
  term.onData((text) => {
    if (control.ariaPressed === "true" && text.length === 1) {
      text = String.fromCharCode(text.toUpperCase().charCodeAt(0) & 31);
      control.ariaPressed = "false";
    }
    send(text);
  });

  const copy = async () => {
    if (!term.hasSelection()) return;
    await navigator.clipboard?.writeText(term.getSelection());
    term.clearSelection();
  };
  term.attachCustomKeyEventHandler((event) => {
    const key = event.key.toLowerCase(), command = event.ctrlKey && !event.altKey;
    if (event.key === "F6" && event.shiftKey) { // the keyboard is not caught
      event.preventDefault();
      if (event.type === "keydown") (again.hidden ? at("terminal-read") : again).focus();
      return false;
    }
    if (command && key === "v") return false; // the browser pastes
    if (command && key === "c" && term.hasSelection()) {
      if (!navigator.clipboard) return false; // on plain HTTP: the browser copies, and the terminal gives it what is selected
      event.preventDefault();
      if (event.type === "keydown") copy();
      return false;
    }
    return true;
  });

  at("terminal-copy").hidden = !navigator.clipboard;
  at("terminal-copy").addEventListener("click", () => copy().then(() => term.focus()));
  at("terminal-paste").hidden = !navigator.clipboard?.readText;
  at("terminal-paste").addEventListener("click", async () => {
    try {
      term.paste(await navigator.clipboard.readText());
    } catch { /* the browser was not allowed to */ }
    term.focus();
  });
  at("terminal-read").addEventListener("change", (event) => { term.options.screenReaderMode = event.target.checked; });
  again.addEventListener("click", () => {
    if (refused) { // perhaps somebody has to sign in first, or to prove who they are
      location.reload();
      return;
    }
    term.reset();
    connect();
  });
  for (const key of document.querySelectorAll("#terminal-keys button")) {
    key.addEventListener("pointerdown", (event) => event.preventDefault()); // the keyboard of a telephone stays
    key.addEventListener("click", () => {
      const name = key.dataset.key;
      if (name === "control") control.ariaPressed = control.ariaPressed === "true" ? "false" : "true";
      else if (name === "escape") send("\x1b");
      else if (name === "tab") send("\t");
      else send((term.modes.applicationCursorKeysMode ? "\x1bO" : "\x1b[") + name);
      term.focus();
    });
  }
  connect();
})();
