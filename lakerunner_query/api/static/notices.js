// What is said when there is nothing, or something went wrong.
import { $, button, element } from "./dom.js";

export function clear() {
  $("notice").hidden = $("empty").hidden = true;
  $("key").classList.remove("wrong");
  $("query").classList.remove("wrong");
}

/** An error in words, with a caret under the place in the query. */
export function showError(error, query) {
  const parts = [element("p", {}, error.message)];
  if (error.status === 401 || error.status === 403) {
    $("key").classList.add("wrong");
    $("key").focus();
  }
  if (error.position) parts.push(pointer(query, error.position));
  notice("error", ...parts);
}

export function partial(missing, what) {
  const first = missing[0] || {};
  return `Partial: ${missing.length} segments could not be read, their ${what} are missing. First: ${first.segment_id || "?"}: ${first.reason || "?"}`;
}

/** A note is a text, or a list of texts and buttons. */
export const showNotes = (texts, kind) => notice(kind, ...texts.map((text) => element("p", {}, ...[text].flat())));

export const showPlan = (text) => notice("", element("pre", {}, text));

export function showNoKey() {
  empty("No API key yet",
    element("p", {}, "Paste a key with role read or admin above; it stays in this tab. To make one:"),
    element("p", {}, element("code", {}, "lakerunner admin key create --org ORG --role read --name explore")));
  $("key").focus();
}

export function showExamples(title, text, examples, run) {
  empty(title, element("p", {}, text), ...examples.map((one) => element("div", {}, button(one, () => run(one)))));
}

/** Longer ones, each as `[title, text]`. */
export function showCards(title, text, examples, run) {
  empty(title, element("p", {}, text), element("div", { className: "examples" }, ...examples.map(([name, one]) =>
    element("button", { type: "button", className: "quiet", onclick: () => run(one) }, element("b", {}, name), element("code", {}, one.replace(`-- ${name}\n`, ""))))));
}

/** With a button for what may help, if there is something. */
export function showNothing(title, label, help) {
  empty(title,
    element("p", {}, "New telemetry can be asked for some seconds after it arrived. Check the labels, or look further back."),
    ...(label ? [button(label, help)] : []));
}

function empty(title, ...children) {
  $("empty").replaceChildren(element("h2", {}, title), ...children);
  $("empty").hidden = false;
}

function notice(kind, ...children) {
  $("notice").className = kind;
  $("notice").replaceChildren(...children);
  $("notice").hidden = false;
}

function pointer(query, { line, column }) {
  const lines = query.split("\n"), text = lines[line - 1] || "";
  const before = [...text].slice(0, column - 1).join("");
  const at = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0) + before.length;
  $("query").classList.add("wrong");
  $("query").setSelectionRange(at, Math.max(at, Math.min(at + 1, query.length)));
  // the same text, unseen, puts the caret right whatever the width of its characters
  return element("pre", {}, `${text}\n`, element("span", { className: "before" }, before), element("span", { className: "caret" }, "^"));
}
