// The query box as an editor: line numbers beside it, and beneath its transparent text the same text in colours.
import { ask, key } from "./api.js";
import { $, element } from "./dom.js";
import * as range from "./range.js";
import { coloured, spanAt } from "./sqltext.js";

const IDLE_MS = 900;
let marked = null; // { from, to } of what is wrong
let writing = false, idle = 0, checking = null;

/** Whether what comes in is written by this page. */
export const isWriting = () => writing;

/** Colours of the text as it is now; in views that have none the box is as it was. */
export function paint() {
  if (document.body.dataset.view !== "sql") return;
  const text = $("query").value, pieces = [];
  for (const { kind, text: piece, from } of coloured(text)) {
    const isWrong = marked && from < marked.to && from + piece.length > marked.from;
    pieces.push(kind === "space" && !isWrong ? piece : element("span", { className: isWrong ? `${kind} bad` : kind }, piece));
  }
  if (marked && marked.from === marked.to) pieces.push(element("span", { className: "bad" }, " "));
  $("paint").replaceChildren(...pieces, "\n");
  const lines = text.split("\n").length, wrong = marked && text.slice(0, marked.from).split("\n").length;
  $("numbers").replaceChildren(...Array.from({ length: lines }, (_, i) => element("span", i + 1 === wrong ? { className: "bad" } : {}, String(i + 1))));
  follow();
}

function follow() {
  const { scrollTop, scrollLeft } = $("query");
  $("paint").style.transform = `translate(${-scrollLeft}px, ${-scrollTop}px)`;
  $("numbers").style.transform = `translateY(${-scrollTop}px)`;
}

/** Marks the place of a mistake and says beneath the editor what it is. */
export function mark({ message, position }) {
  const text = $("query").value, said = message.replace(/^parse error(?: at line \d+, col \d+)?\s*: /, "").replace(/^(?:Binder|Parser|Catalog|Conversion) Error: /, "");
  marked = position ? spanAt(text, position) : null;
  const place = position ? [element("button", { type: "button", className: "quiet", title: "go there", onclick: () => select(marked) }, `Line ${position.line}, column ${position.column}`), " "] : [];
  $("mistake").replaceChildren(...place, element("span", {}, said));
  $("mistake").hidden = false;
  $("query").setAttribute("aria-invalid", "true");
  paint();
}

export function unmark() {
  marked = null;
  $("mistake").hidden = true;
  $("query").removeAttribute("aria-invalid");
  paint();
}

export function select(span) {
  $("query").focus();
  if (span) $("query").setSelectionRange(span.from, span.to);
}

/** Writes at the caret, so that undo takes it back. */
export function insert(text) {
  const box = $("query");
  box.focus();
  writing = true;
  if (!document.execCommand("insertText", false, text)) {
    box.setRangeText(text, box.selectionStart, box.selectionEnd, "end");
    box.dispatchEvent(new Event("input"));
  }
  writing = false;
}

export function replaceAll(text) {
  $("query").focus();
  $("query").select();
  insert(text);
}

/** Where the caret is, in pixels of the box. */
export function caretPlace(at) {
  const box = $("query"), lines = box.value.slice(0, at).split("\n"), { lineHeight, paddingLeft, paddingTop } = getComputedStyle(box);
  const letter = $("ruler").getBoundingClientRect().width / 10;
  return { left: parseFloat(paddingLeft) + letter * lines.at(-1).length - box.scrollLeft, top: parseFloat(paddingTop) + parseFloat(lineHeight) * lines.length - box.scrollTop };
}

export function unchecked() {
  clearTimeout(idle);
  checking?.abort();
}

/** What is wrong is said while somebody writes, once the keys rest; not of what is still to be written. */
function check() {
  unchecked();
  if (document.body.dataset.view !== "sql" || !key.get()) return;
  idle = setTimeout(async () => {
    const q = $("query").value, mine = checking = new AbortController();
    if (!q.trim() || /\b(promql|logql|traceql)\s*\(/i.test(q)) return; // their queries would be run
    const asking = async () => (await ask("/api/v1/lakeql/validate", { q, ...range.asked() }, mine.signal)).json();
    const said = await asking().catch(() => ({})); // running it says what fails
    const place = said.error?.position && spanAt(q, said.error.position);
    const isBehind = place && q.slice(place.to, $("query").selectionStart).trim(); // at the last word it may be that the next is missing
    if (isBehind && !mine.signal.aborted && q === $("query").value) mark(said.error);
  }, IDLE_MS);
}

/** Binds the box. */
export function editing() {
  $("query").addEventListener("input", () => { if (marked || !$("mistake").hidden) unmark(); else paint(); check(); });
  $("query").addEventListener("scroll", follow);
  $("query").addEventListener("keydown", (event) => {
    if (document.body.dataset.view !== "sql" || event.key !== "/" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    comment();
  });
}

/** Ctrl+/ makes comments of the lines that are chosen, or makes them lines again. */
function comment() {
  const box = $("query"), text = box.value;
  const from = text.lastIndexOf("\n", box.selectionStart - 1) + 1, behind = text.indexOf("\n", box.selectionEnd);
  const to = behind < 0 ? text.length : behind, lines = text.slice(from, to).split("\n");
  const isOff = lines.every((line) => /^\s*--/.test(line));
  box.setSelectionRange(from, to);
  insert(lines.map((line) => (isOff ? line.replace(/^(\s*)-- ?/, "$1") : `-- ${line}`)).join("\n"));
}
