// The statements that were run last. They stay in this browser, beyond the tab; the key does not.
import { $, button, element, visible } from "./dom.js";

const NAME = "lakerunner-statements", MOST = 50;

/** The newest first; nothing where the browser keeps nothing. */
export function past() {
  try {
    const kept = JSON.parse(localStorage.getItem(NAME) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one) => typeof one?.text === "string") : [];
  } catch {
    return [];
  }
}

/** The list with one more at its head; the same text stands in it once. */
export const withOne = (kept, text, at) => [{ text, at }, ...kept.filter((one) => one.text !== text)].slice(0, MOST);

export function keep(text) {
  try {
    localStorage.setItem(NAME, JSON.stringify(withOne(past(), text.trim(), Date.now())));
  } catch { /* full, or forbidden: the history is a convenience */ }
}

export function drawPast(take) {
  const kept = past(), forget = button("Forget all", () => { localStorage.removeItem(NAME); drawPast(take); });
  $("past-list").replaceChildren(...kept.map(({ text, at }) => element("li", {}, element("button", { type: "button", className: "quiet", title: visible(text), onclick: () => { $("past").open = false; take(text); } },
    element("span", {}, visible(text.replace(/\s+/g, " ").slice(0, 160))), element("small", {}, `${new Date(at).toISOString().slice(0, 16).replace("T", " ")} UTC`)))),
  element("li", { className: "hint" }, ...(kept.length ? [`the last ${kept.length} statements of this browser`, forget] : ["Statements that were run stand here."])));
}
