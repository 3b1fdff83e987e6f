// Suggestions beneath the query box. Arrows choose and Enter or Tab takes the chosen one; without a choice
// Enter runs and Tab leaves, so that nobody is held by a list they did not ask for.
import { key, listed as fresh } from "./api.js";
import { AGGREGATIONS, completed, contextAt, FUNCTIONS, ranked } from "./complete.js";
import { LOG_AGGREGATIONS, LOG_FUNCTIONS, STAGES } from "./logql.js";
import { $, element, visible } from "./dom.js";
import * as range from "./range.js";
import { caretPlace, isWriting } from "./editor.js";
import { offered as ofSchema } from "./schema.js";
import { placed, sqlContext } from "./sqltext.js";
import { KINDS, STATUSES, TRACE_FUNCTIONS, TRACE_STAGES, traceCompleted, traceContext } from "./tracetext.js";

const MOST = 10000;
const words = (names, hint, call = false) => names.map((name) => ({ name, hint, call }));
const LANGUAGE = [...words(AGGREGATIONS, "aggregation"), ...words(FUNCTIONS, "function", true)];
const LOG_LANGUAGE = [...words(STAGES, "stage"), ...words(LOG_AGGREGATIONS, "aggregation"), ...words(LOG_FUNCTIONS, "function", true)];
let offered = [], chosen = -1, context = null, turn = 0, wanted = () => "metrics";

const listed = (path, body) => fresh(path, { ...range.asked(), ...body });

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

const CHOICES = { status: STATUSES, "span:status": STATUSES, kind: KINDS, "span:kind": KINDS };

async function ofTraces({ kind, field }) {
  if (kind === "word") return [...words(TRACE_STAGES, "stage"), ...words(TRACE_FUNCTIONS, "function", true)];
  if (kind === "field") {
    const { tags, intrinsics } = await listed("/api/v1/spans/tags", { limit: MOST });
    return [...words(tags, ""), ...words(intrinsics, "of every span")];
  }
  if (CHOICES[field]) return CHOICES[field].map((name) => ({ name, type: "keyword" }));
  const { values, types } = await listed("/api/v1/spans/tagvalues", { tag: field, limit: 1000 });
  return values.map((name, i) => ({ name, type: types[i], hint: types[i] === "string" ? "" : types[i] }));
}

/** Of each view: what the caret is at, what could be there, and the text with it. */
const LANGUAGES = {
  logs: { at: contextAt, of: ofLogs, put: completed },
  metrics: { at: contextAt, of: ofMetrics, put: completed },
  traces: { at: traceContext, of: ofTraces, put: traceCompleted },
  sql: { at: sqlContext, of: (found, asked) => ofSchema(found, $("query").value, asked), put: placed },
};

async function offer(asked) {
  const mine = ++turn, box = $("query"), before = context;
  context = box.selectionStart === box.selectionEnd ? LANGUAGES[wanted()].at(box.value, box.selectionStart) : null;
  if (offered.length && (before?.from !== context?.from || before?.kind !== context?.kind)) open([]); // what was offered is of another word
  if (!key.get() || !context || (/^(metric|word)$/.test(context.kind) && !context.prefix && !asked)) return close();
  try {
    const found = ranked(await LANGUAGES[wanted()].of(context, asked), context.prefix);
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
  if (found.length) place();
  $("query").removeAttribute("aria-activedescendant");
}

/** Beneath the box, or in one of many lines beneath the word. */
function place() {
  const list = $("suggestions"), { left, top } = wanted() === "sql" ? caretPlace(context.from) : {};
  list.style.top = top === undefined ? "" : `${top + 4}px`;
  list.style.left = left === undefined ? "" : `${Math.max(0, Math.min(left, $("query").clientWidth - list.offsetWidth))}px`;
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
  const box = $("query"), next = LANGUAGES[wanted()].put(box.value, box.selectionStart, context, offered[i]);
  box.value = next.text;
  box.setSelectionRange(next.caret, next.caret);
  box.dispatchEvent(new Event("input")); // colours follow, and what can be written next is offered
}

/** Binds the query box; `view()` is the name of the view for which suggestions are made. */
export function suggesting(view) {
  const box = $("query");
  wanted = view;
  box.addEventListener("input", () => (isWriting() ? close() : offer(false)));
  for (const event of ["blur", "click"]) box.addEventListener(event, close);
  box.addEventListener("keydown", (event) => {
    if (event.key === " " && event.ctrlKey) { event.preventDefault(); offer(true); }
    if (event.key === "Enter" && chosen < 0) close();
    if (!offered.length || event.isComposing) return;
    const act = { ArrowDown: () => choose(1), ArrowUp: () => choose(-1), Escape: close, ...(chosen < 0 ? {} : { Enter: () => take(chosen), Tab: () => take(chosen) }) }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
}
