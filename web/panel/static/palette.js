// The palette: applications, pages and actions, found by typing. The focus stays in the field, and the
// arrows choose (WAI-ARIA, combobox with a list). Names are put into the page as text alone.
const limit = 30, lead = 8; // how many are shown, and how many applications before somebody types
let data, dialog, field, list, none, more, shown = [], at = -1;

// plain makes letters alike that people take for each other.
const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

// entries are all that can be found: what it is called, what it belongs to, and what it does.
function entries(whole) {
  const all = [];
  const add = (kind, word, of, act, more = "", state = "") => all.push({ kind, word, of, act, state, text: plain([word, of, more].join(" ")) });
  const go = (url) => () => location.assign(url);
  for (const a of whole ? data.apps : data.apps.slice(0, lead)) {
    const path = "/apps/" + encodeURIComponent(a.id), of = a.name + (a.owner ? " · " + a.owner : "");
    const first = a.tabs.length ? data.tabs[a.tabs[0]] : undefined;
    if (first) add("app", a.name, a.owner || a.id, go(path + first.url), a.id, a);
    if (!whole) continue;
    for (const tab of a.tabs.slice(1)) add("tab", data.tabs[tab].word, of, go(path + data.tabs[tab].url), a.id);
    for (const deed of a.deeds) add("act", data.deeds[deed].word, of, () => send(path + data.deeds[deed].url), a.id);
  }
  for (const page of data.pages) add("page", page.word, "", go(page.url));
  for (const act of data.acts) add("act", act.word, "", () => send(act.url, act.field, act.value));
  return all;
}

// send posts a form, as a button of a page does.
function send(url, name, value) {
  const form = document.createElement("form");
  form.method = "post";
  form.action = url;
  for (const [n, v] of [["back", location.pathname + location.search], [name, value]]) {
    if (!n) continue;
    const input = document.createElement("input");
    input.type = "hidden";
    input.name = n;
    input.value = v;
    form.append(input);
  }
  document.body.append(form);
  form.submit();
}

const order = { app: 0, page: 1, tab: 2, act: 2 };

// rank is how well an entry fits, the best first; -1 when it does not.
function rank(entry, words) {
  let sum = order[entry.kind];
  const name = plain(entry.word);
  for (const word of words) {
    const found = entry.text.indexOf(word);
    if (found < 0) return -1;
    sum += name === word ? 0 : name.startsWith(word) ? 2 : found === 0 || entry.text[found - 1] === " " ? 4 : 8;
  }
  return sum;
}

function look() {
  const words = plain(field.value).split(/\s+/).filter(Boolean);
  const found = entries(words.length > 0).map((entry) => ({ entry, rank: rank(entry, words) })).filter((one) => one.rank >= 0);
  if (words.length) found.sort((a, b) => a.rank - b.rank);
  shown = found.slice(0, limit).map((one) => one.entry);
  list.replaceChildren(...shown.map(option));
  field.setAttribute("aria-expanded", String(shown.length > 0));
  none.textContent = shown.length ? "" : none.dataset.none;
  more.hidden = !words.length || !(data.more || found.length > limit);
  more.firstElementChild.href = "/?" + new URLSearchParams({ q: field.value.trim() });
  choose(shown.length ? 0 : -1);
}

// tile is the icon of an application: its own, or the letters of its language.
function tile(a) {
  const made = document.createElement(a.icon ? "img" : "span");
  made.className = a.icon ? "tile" : "tile " + a.lang;
  made.alt = "";
  if (a.icon) made.src = a.icon;
  else made.textContent = data.letters[a.lang] || "";
  made.setAttribute("aria-hidden", "true");
  return made;
}

function option(entry, i) {
  const item = document.createElement("li");
  item.id = "found-" + i;
  item.setAttribute("role", "option");
  item.setAttribute("aria-selected", "false");
  if (entry.state) item.append(tile(entry.state));
  const word = document.createElement("span");
  word.className = "word";
  word.textContent = entry.word;
  item.append(word);
  if (entry.of) {
    const of = document.createElement("span");
    of.className = "faint";
    of.textContent = entry.of;
    item.append(of);
  }
  if (entry.state) {
    item.className = entry.state.class;
    const state = document.createElement("span");
    state.className = "state";
    state.textContent = entry.state.word;
    item.append(state);
  }
  item.addEventListener("mousemove", () => i !== at && choose(i));
  item.addEventListener("click", () => act(i));
  return item;
}

function choose(i) {
  list.children[at]?.setAttribute("aria-selected", "false");
  at = i;
  const item = list.children[at];
  if (!item) return field.removeAttribute("aria-activedescendant");
  item.setAttribute("aria-selected", "true");
  item.scrollIntoView({ block: "nearest" });
  field.setAttribute("aria-activedescendant", item.id);
}

function act(i) {
  const entry = shown[i];
  if (!entry) return;
  dialog.close();
  entry.act();
}

function press(event) {
  if (event.isComposing) return;
  const n = shown.length;
  const moves = { ArrowDown: () => choose((at + 1) % n), ArrowUp: () => choose((at + n - 1) % n), PageDown: () => choose(Math.min(at + 8, n - 1)), PageUp: () => choose(Math.max(at - 8, 0)) };
  if (event.key === "Enter") act(at);
  else if (n && Object.hasOwn(moves, event.key)) moves[event.key]();
  else return;
  event.preventDefault();
}

// open shows the palette, with what there is at this moment.
export async function open(palette) {
  if (!dialog) {
    dialog = palette;
    [field, list, none, more] = ["input", "[role=listbox]", ".none", ".more"].map((what) => dialog.querySelector(what));
    field.addEventListener("input", () => data && look());
    field.addEventListener("keydown", press);
    list.addEventListener("mousedown", (event) => event.preventDefault()); // the focus stays in the field
    dialog.addEventListener("close", () => { data = undefined; });
  }
  if (dialog.open) return;
  field.value = "";
  shown = [];
  list.replaceChildren();
  more.hidden = true;
  field.setAttribute("aria-expanded", "false");
  field.removeAttribute("aria-activedescendant");
  none.textContent = none.dataset.wait;
  dialog.showModal();
  field.focus();
  try {
    const answer = await fetch("/palette", { credentials: "same-origin" });
    if (answer.redirected || answer.status === 401 || answer.status === 403) return location.reload();
    if (!answer.ok) throw new Error(String(answer.status));
    data = await answer.json();
    look();
  } catch {
    none.textContent = none.dataset.broken;
  }
}
