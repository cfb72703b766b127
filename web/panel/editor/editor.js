// The editor of the page of a file: it takes the place of the textarea, and gives its text back to it
// when the form is sent. test/scripts/editor makes static/vendor/editor.js of this and of CodeMirror.
import { EditorState } from "@codemirror/state";
import { EditorView, drawSelection, dropCursor, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers, rectangularSelection } from "@codemirror/view";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { StreamLanguage, HighlightStyle, bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { css } from "@codemirror/lang-css";
import { go } from "@codemirror/lang-go";
import { html } from "@codemirror/lang-html";
import { java } from "@codemirror/lang-java";
import { javascript } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { markdown } from "@codemirror/lang-markdown";
import { php } from "@codemirror/lang-php";
import { python } from "@codemirror/lang-python";
import { sql } from "@codemirror/lang-sql";
import { yaml } from "@codemirror/lang-yaml";
import { dockerFile } from "@codemirror/legacy-modes/mode/dockerfile";
import { properties } from "@codemirror/legacy-modes/mode/properties";
import { ruby } from "@codemirror/legacy-modes/mode/ruby";
import { rust } from "@codemirror/legacy-modes/mode/rust";
import { shell } from "@codemirror/legacy-modes/mode/shell";
import { toml } from "@codemirror/legacy-modes/mode/toml";
import { tags } from "@lezer/highlight";

// The language of a file, by its whole name or by what comes after its last dot.
const modes = [
  [["js", "mjs", "cjs"], () => javascript()],
  [["jsx"], () => javascript({ jsx: true })],
  [["ts", "mts", "cts"], () => javascript({ typescript: true })],
  [["tsx"], () => javascript({ jsx: true, typescript: true })],
  [["py", "pyi"], () => python()],
  [["php"], () => php()],
  [["go"], () => go()],
  [["java"], () => java()],
  [["json", "jsonc", "map", "webmanifest"], () => json()],
  [["html", "htm", "svg", "xml", "ejs", "vue"], () => html()],
  [["css"], () => css()],
  [["md", "markdown"], () => markdown()],
  [["yaml", "yml"], () => yaml()],
  [["sql"], () => sql()],
  [["toml", "cargo.lock", "poetry.lock", "pipfile"], () => StreamLanguage.define(toml)],
  [["env", "properties", "ini", "cfg", "conf", "discloud.config", ".editorconfig", ".npmrc"], () => StreamLanguage.define(properties)],
  [["sh", "bash", ".bashrc", ".profile"], () => StreamLanguage.define(shell)],
  [["rb", "gemfile", "rakefile"], () => StreamLanguage.define(ruby)],
  [["rs"], () => StreamLanguage.define(rust)],
  [["dockerfile"], () => StreamLanguage.define(dockerFile)],
];

function languageOf(name, text) {
  name = name.toLowerCase();
  if (name.startsWith(".env")) name = ".env"; // .env.local and its like
  const ending = name.slice(name.lastIndexOf(".") + 1);
  const found = modes.find(([names]) => names.includes(name)) ?? modes.find(([names]) => names.includes(ending));
  if (found) return found[1]();
  const [first] = text.split("\n", 1);
  if (/^#!.*\bpython/.test(first)) return python();
  if (/^#!.*\bnode/.test(first)) return javascript();
  return /^#!.*sh\b/.test(first) ? StreamLanguage.define(shell) : [];
}

// The colours are the panel's, which have a contrast of at least 4.5 in both themes.
const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword], color: "var(--c5)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--c2)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom, tags.escape], color: "var(--c3)" },
  { tag: [tags.comment, tags.meta], color: "var(--faint)", fontStyle: "italic" },
  { tag: [tags.typeName, tags.className, tags.namespace], color: "var(--c6)" },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName), tags.tagName, tags.definition(tags.propertyName)], color: "var(--c4)" },
  { tag: [tags.attributeName, tags.propertyName], color: "var(--c12)" },
  { tag: tags.heading, fontWeight: "bold", color: "var(--c4)" },
  { tag: [tags.link, tags.url], color: "var(--link)", textDecoration: "underline" },
  { tag: tags.strong, fontWeight: "bold" },
  { tag: tags.emphasis, fontStyle: "italic" },
  { tag: tags.invalid, color: "var(--bad)" },
]);

const mono = 'ui-monospace, "SFMono-Regular", "DejaVu Sans Mono", monospace';
const face = EditorView.theme({
  "&": { height: "100%", border: "1px solid var(--field)", borderRadius: "8px", overflow: "hidden", background: "var(--card)", color: "var(--text)", fontSize: ".875rem" },
  "&.cm-focused": { outline: "none" }, // the panel's sheet shows the focus, around what this is in
  ".cm-scroller": { fontFamily: mono, lineHeight: "1.5", overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)", padding: ".5rem 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)", borderLeftWidth: "2px" },
  ".cm-gutters": { background: "var(--page)", color: "var(--faint)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { background: "color-mix(in srgb, var(--link) 8%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { background: "color-mix(in srgb, var(--link) 28%, transparent) !important" },
  ".cm-selectionMatch": { background: "color-mix(in srgb, var(--busy) 24%, transparent)" },
  ".cm-searchMatch": { background: "color-mix(in srgb, var(--busy) 30%, transparent)", outline: "1px solid var(--busy)" },
  ".cm-searchMatch-selected": { background: "color-mix(in srgb, var(--busy) 55%, transparent)" },
  "&.cm-focused .cm-matchingBracket": { background: "color-mix(in srgb, var(--good) 25%, transparent)" },
  ".cm-specialChar": { color: "var(--bad)" },
  ".cm-panels": { background: "var(--page)", color: "var(--text)", borderBottom: "1px solid var(--line)" },
  ".cm-panel.cm-search": { padding: ".5rem 2.75rem .5rem .5rem", display: "flex", flexWrap: "wrap", gap: ".375rem", alignItems: "center", font: "inherit", fontFamily: "inherit" },
  ".cm-panel.cm-search br": { display: "block", flexBasis: "100%", content: '""', height: "0" },
  ".cm-panel.cm-search input, .cm-panel.cm-search button": { margin: "0", fontSize: ".875rem" },
  ".cm-panel.cm-search label": { display: "inline-flex", alignItems: "center", gap: ".25rem", margin: "0", minHeight: "2rem", fontSize: ".875rem" },
  ".cm-panel.cm-search input[type=checkbox]": { width: "1.125rem", height: "1.125rem", accentColor: "var(--main)" },
  ".cm-textfield": { minHeight: "2rem", border: "1px solid var(--field)", borderRadius: "6px", background: "var(--card)", color: "var(--text)", padding: "0 .5rem", font: "inherit" },
  ".cm-button": { minHeight: "2rem", border: "1px solid var(--field)", borderRadius: "6px", background: "var(--card)", backgroundImage: "none", color: "var(--text)", padding: "0 .625rem", font: "inherit", cursor: "pointer" },
  ".cm-button:active": { backgroundImage: "none", background: "var(--off-back)" },
  ".cm-panel.cm-search button[name=close]": { position: "absolute", top: ".5rem", right: ".5rem", width: "2rem", height: "2rem", fontSize: "1.25rem", background: "none", border: "0", color: "inherit", cursor: "pointer" },
  ".cm-textfield:focus-visible, .cm-button:focus-visible, button:focus-visible": { outline: "2px solid var(--link)", outlineOffset: "1px" },
});

const form = document.getElementById("edit"), area = document.getElementById("text"), hint = document.getElementById("keys");
if (form && area) {
  const holder = document.createElement("div"), save = form.querySelector("[data-save]");
  holder.className = "codemirror";
  area.before(holder);
  area.hidden = true;
  if (hint) hint.hidden = false;
  // Below a shadow root styles are sheets that a script makes, which no policy needs an exception for. In the
  // page itself they would be elements of style.
  const root = holder.attachShadow({ mode: "open" });
  const began = area.value;
  const indent = /^\t/m.test(began) ? "\t" : /^ {4}\S/m.test(began) && !/^ {2}\S/m.test(began) || /\.py$/.test(area.dataset.name) ? "    " : "  ";
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: began,
      extensions: [
        EditorState.phrases.of(JSON.parse(area.dataset.phrases)),
        EditorView.contentAttributes.of({ "aria-label": [form.querySelector("label[for=text]").textContent, hint?.textContent].filter(Boolean).join(". "), tabindex: "0", spellcheck: "false", autocapitalize: "none" }),
        lineNumbers(), highlightActiveLine(), highlightActiveLineGutter(), highlightSpecialChars(),
        drawSelection(), dropCursor(), rectangularSelection(), bracketMatching(), indentOnInput(), highlightSelectionMatches(),
        history(), search({ top: true }), indentUnit.of(indent), EditorState.allowMultipleSelections.of(true),
        keymap.of([...searchKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
        languageOf(area.dataset.name, began), syntaxHighlighting(colours), face,
      ],
    }),
  });
  let leaving = false;
  const text = () => view.state.doc.toString();
  form.addEventListener("submit", () => {
    area.value = text();
    leaving = true;
  });
  addEventListener("pageshow", () => { leaving = false; });
  addEventListener("beforeunload", (event) => {
    if (!leaving && ("unsaved" in area.dataset || text() !== began)) event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || event.key.toLowerCase() !== "s") return;
    event.preventDefault();
    if (save && !form.dataset.sent) form.requestSubmit(save);
  });
}
