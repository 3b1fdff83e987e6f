// Suggestions beneath the query box. Arrows choose and Enter or Tab takes the chosen one; without a choice
// Enter runs and Tab leaves, so that nobody is held by a list they did not ask for.
import { ask, key } from "./api.js";
import { AGGREGATIONS, completed, contextAt, FUNCTIONS, ranked } from "./complete.js";
import { LOG_AGGREGATIONS, LOG_FUNCTIONS, STAGES } from "./logql.js";
import { $, element, visible } from "./dom.js";
import * as range from "./range.js";

const FRESH_MS = 60000, MOST = 10000;
const words = (names, hint, call = false) => names.map((name) => ({ name, hint, call }));
const LANGUAGE = [...words(AGGREGATIONS, "aggregation"), ...words(FUNCTIONS, "function", true)];
const LOG_LANGUAGE = [...words(STAGES, "stage"), ...words(LOG_AGGREGATIONS, "aggregation"), ...words(LOG_FUNCTIONS, "function", true)];
const kept = new Map(); // what was asked → { at, answer }
let offered = [], chosen = -1, context = null, turn = 0, wanted = () => "metrics";

async function listed(path, body) {
  const asked = { ...range.asked(), ...body }, name = JSON.stringify([path, asked, key.get()]);
  if (!(Date.now() - kept.get(name)?.at < FRESH_MS)) {
    kept.set(name, { at: Date.now(), answer: ask(path, asked).then((response) => response.json()) });
  }
  return kept.get(name).answer.catch((error) => { kept.delete(name); throw error; });
}

/** Which metrics there are, and what they say of themselves. */
export async function catalogue() {
  const [{ values }, { metrics }] = await Promise.all([
    listed("/api/v1/metrics/tagvalues", { tag: "__name__", limit: MOST }), listed("/api/v1/metrics/metadata", { limit: MOST })]);
  return { names: values, facts: metrics };
}

/** Of streams; other labels are known only when lines are read. */
async function ofLogs({ kind, label }) {
  if (kind === "label") return words((await listed("/api/v1/logs/tags", { limit: MOST })).tags, "stream label");
  if (kind === "value") return words((await listed("/api/v1/logs/tagvalues", { tag: label, limit: MOST })).values, "");
  return LOG_LANGUAGE;
}

async function ofMetrics({ kind, metric, label }) {
  const about = metric ? { metric } : {};
  if (kind === "label") return (await listed("/api/v1/metrics/tags", { ...about, limit: MOST })).tags.filter((name) => name !== "__name__").map((name) => ({ name }));
  if (kind === "value") return (await listed("/api/v1/metrics/tagvalues", { ...about, tag: label, limit: MOST })).values.map((name) => ({ name }));
  const { names, facts } = await catalogue();
  const known = new Map(facts.map((fact) => [fact.name, fact]));
  const hint = (name) => known.get(name) ?? known.get(name.replace(/_(bucket|count|sum)$/, ""));
  const said = (fact) => (fact ? [fact.type, fact.unit, fact.description].filter(Boolean).join(" · ") : "");
  return [...names.map((name) => ({ name, hint: said(hint(name)) })), ...LANGUAGE];
}

async function offer(asked) {
  const mine = ++turn, box = $("query");
  context = box.selectionStart === box.selectionEnd ? contextAt(box.value, box.selectionStart) : null;
  if (!key.get() || !context || (context.kind === "metric" && !context.prefix && !asked)) return close();
  try {
    const found = ranked(await (wanted() === "logs" ? ofLogs : ofMetrics)(context), context.prefix);
    if (mine === turn) open(found);
  } catch (error) {
    if (mine !== turn) return;
    close();
    $("status").textContent = `no suggestions: ${error.message}`;
  }
}

function open(found) {
  offered = found;
  chosen = -1;
  $("suggestions").replaceChildren(...found.map(({ name, hint = "" }, i) => {
    const item = element("li", { id: `suggestion-${i}`, role: "option", ariaSelected: "false" }, element("span", {}, visible(name)), element("small", {}, visible(hint)));
    item.addEventListener("pointerdown", (event) => { event.preventDefault(); take(i); });
    return item;
  }));
  $("suggestions").hidden = !found.length;
  $("query").removeAttribute("aria-activedescendant");
}

function close() {
  turn += 1;
  open([]);
}

function choose(step) {
  chosen = (chosen + step + offered.length + (chosen < 0 && step < 0 ? 1 : 0)) % offered.length;
  [...$("suggestions").children].forEach((item, i) => { item.ariaSelected = String(i === chosen); });
  $("suggestions").children[chosen].scrollIntoView({ block: "nearest" });
  $("query").setAttribute("aria-activedescendant", `suggestion-${chosen}`);
}

function take(i) {
  const box = $("query"), next = completed(box.value, box.selectionStart, context, offered[i]);
  box.value = next.text;
  box.setSelectionRange(next.caret, next.caret);
  offer(false);
}

/** Binds the query box; `view()` is the name of the view for which suggestions are made. */
export function suggesting(view) {
  const box = $("query");
  wanted = view;
  box.addEventListener("input", () => offer(false));
  for (const event of ["blur", "click"]) box.addEventListener(event, close);
  box.addEventListener("keydown", (event) => {
    if (event.key === " " && event.ctrlKey) { event.preventDefault(); offer(true); }
    if (event.key === "Enter" && chosen < 0) close();
    if (!offered.length || event.isComposing) return;
    const act = { ArrowDown: () => choose(1), ArrowUp: () => choose(-1), Escape: close, ...(chosen < 0 ? {} : { Enter: () => take(chosen), Tab: () => take(chosen) }) }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
}
