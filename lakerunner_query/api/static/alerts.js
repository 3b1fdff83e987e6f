// Alerts: the rules, what fires now, and how that changed over the range.
import { ask } from "./api.js";
import { $, element, visible } from "./dom.js";
import * as notices from "./notices.js";
import { asked, moment } from "./range.js";
import { guarded, start } from "./runner.js";
import { many } from "./summary.js";

const VIEWS = { promql: "metrics", logql: "logs", traceql: "traces", lakeql: "sql" };
const ORDER = { firing: 0, pending: 1, inactive: 2 };
const EXPLAIN = { promql: "/api/v1/metrics/explain", logql: "/api/v1/logs/explain", traceql: "/api/v1/spans/explain", lakeql: "/api/v1/query/explain" };
const VERDICTS = { would_have_fired: "would have fired", would_not_have_fired: "would not have fired" };
// Seconds for which an hour may wait to be recorded.
const BEHIND_S = 300;
const REWRITES = /^(rewrite of|rewritten:|steps from derived metrics:)/;
const NOTHING = { groups: [], changes: [], corrections: [], waiting: [] };
let shown = NOTHING;

export const alerts = {
  name: "alerts", language: "Alerts", every: 15000, text: "", asked: true,
  ask: run, explain() {}, settle() {},
  examples: () => start(alerts),
  answer: () => "alerts",
  blank() { shown = NOTHING; $("alerts").hidden = true; },
  count: () => many(rules().length, "rules"),
  query: () => "",
  window: () => (shown.end ? { start: BigInt(shown.start) * 1000000n, end: BigInt(shown.end) * 1000000n } : null),
  summary: (done, seconds) => [alerts.count(), ...["firing", "pending"].map((state) => `${active(state)} ${state}`), `${shown.changes.length}${shown.is_complete ? "" : "+"} changes`, ...(shown.corrections.length ? [many(shown.corrections.length, "corrections")] : []), `${seconds.toFixed(2)} s`].join(" · "),
};

async function run({ quiet = false } = {}) {
  await guarded(alerts, quiet, async (signal) => {
    const { s, e } = asked(), json = async (path, body) => (await ask(path, body, signal)).json();
    const [{ data }, history, { corrections = [] }] = await Promise.all([json("/prometheus/api/v1/rules"), json("/api/v1/alerts", new URLSearchParams({ start: s, end: e })),
      ask(`/api/v1/rules/history?${new URLSearchParams({ start: s, end: e })}`, undefined, signal).then((answer) => answer.json())]);
    if (!quiet) alerts.blank();
    else notices.clear();
    shown = { ...history, corrections, groups: data.groups };
    if (rules().length || recorded().length) draw();
    else notices.showNothing("No rules yet. Apply a file: lakerunner rules apply FILE");
    const late = shown.waiting.map(({ receiver, waiting, oldest_s }) => `${many(waiting, "notifications")} wait for the ${receiver}, the oldest for ${Math.round(oldest_s)} s`);
    if (late.length) notices.showNotes(late, "warn");
    return {};
  });
}

/** All alerting rules with their groups; what fires comes first. */
const rules = () => shown.groups.flatMap((group) => group.rules.filter(({ type }) => type === "alerting").map((rule) => ({ group, rule })))
  .sort((a, b) => ORDER[a.rule.state] - ORDER[b.rule.state]);
/** Groups without alerts: the asset `recorded/metrics` evaluates them. */
const recorded = () => shown.groups.filter(({ rules }) => rules.every(({ type }) => type === "recording"));
const active = (state) => shown.groups.flatMap(({ rules }) => rules).flatMap(({ alerts = [] }) => alerts).filter((one) => one.state === state).length;

const identity = (labels) => JSON.stringify(Object.entries(labels).sort());

/** Stretches `{ state, from, to }` of one alert within the range, from its changes and its state now. */
export function stretches(changes, now, start, end) {
  const found = [], ordered = [...changes].sort((a, b) => a.at - b.at);
  let from = start, state = ordered.length ? (ordered[0].state === "inactive" ? "firing" : "inactive") : now ?? "inactive";
  for (const one of [...ordered, { at: end, state: null }]) {
    const at = Math.min(Math.max(one.at, start), end);
    if (state !== "inactive" && at > from) found.push({ state, from, to: at });
    [from, state] = [at, one.state];
  }
  return found;
}

/** The alerts of a rule that were, or are, active in the range: `{ labels, now, changes, corrections }`. */
export function history(rule, group, changes, corrections = []) {
  const found = new Map(), of = (labels) => found.get(identity(labels)) ?? found.set(identity(labels), { labels, now: null, changes: [], corrections: [] }).get(identity(labels));
  const isOwn = (one) => one.rule_group === group.name && one.file === group.file && one.alert === rule.name;
  for (const one of rule.alerts) Object.assign(of(one.labels), { now: one });
  for (const one of changes.filter(isOwn)) of(one.labels).changes.push({ ...one, at: Date.parse(one.at) });
  for (const one of corrections.filter(isOwn)) of(one.labels).corrections.push({ ...one, from: Date.parse(one.from), to: Date.parse(one.to) });
  return [...found.values()];
}

function draw() {
  $("alert-rules").replaceChildren(...rules().map(({ group, rule }) => card(group, rule)), ...recorded().map(recording));
  $("alerts").hidden = false;
}

function card(group, rule) {
  const kept = $("range").value === "custom" ? { range: "custom", from: $("from").value, to: $("to").value } : { range: $("range").value };
  const href = `#${new URLSearchParams({ view: VIEWS[group.language], q: rule.query, ...kept })}`;
  const evaluated = rule.health === "unknown" ? "not evaluated yet" : `evaluated ${moment(Date.parse(rule.lastEvaluation))} in ${(rule.evaluationTime * 1000).toFixed(0)} ms`;
  const facts = [`${group.file} › ${group.name}`, `every ${group.interval} s`, ...(rule.duration ? [`for ${rule.duration} s`] : []), evaluated,
    ...(group.evaluationDelay ? [`looks back ${group.evaluationDelay.toFixed(0)} s`] : []), ...(group.missedEvaluations ? [`${many(group.missedEvaluations, "evaluations")} missed`] : [])];
  const made = element("li", { className: `rule ${rule.state}` },
    element("div", { className: "head" }, element("span", { className: "state" }, rule.state), element("b", {}, visible(rule.name)), element("a", { href, title: "ask this in Explore" }, element("code", {}, visible(rule.query)))),
    element("p", { className: "facts" }, facts.map(visible).join(" · ")));
  if (rule.lastError) made.append(element("p", { className: "failed", role: "alert" }, visible(rule.lastError)));
  const rows = history(rule, group, shown.changes, shown.corrections).map((one) => row(one, group));
  if (rows.length) made.append(element("ul", { className: "times" }, ...rows));
  made.append(answered(group, rule));
  return made;
}

/** A closed box that tells, once it is opened, which derived metric answers the query, or why none does. */
function answered(group, rule) {
  const text = element("p", { className: "facts" }, "…"), box = element("details", {}, element("summary", {}, "how it is answered"), text);
  box.addEventListener("toggle", async () => {
    if (!box.open) return;
    const end = BigInt(shown.end), step = BigInt(Math.max(1, Math.round(group.interval))) * 1000n;
    const range = { q: rule.query, s: String(end - step), e: String(end) };
    try {
      const lines = (await (await ask(EXPLAIN[group.language], group.language === "lakeql" ? range : { ...range, step: `${step / 1000n}s` })).text()).split("\n");
      const told = lines.filter((line) => REWRITES.test(line.trim())), segments = lines.filter((line) => line.startsWith("segments: "));
      text.replaceChildren(...[...(told.length ? told : ["from records: no derived metric is considered for this query"]), ...segments].flatMap((line) => [visible(line.trim()), element("br")]));
    } catch (error) {
      text.textContent = visible(error.message);
    }
  });
  return box;
}

/** A group that only records: whether what it records is current. */
function recording(group) {
  const health = ["err", "unknown", "ok"].find((one) => group.rules.some((rule) => rule.health === one)) ?? "unknown", waits = Math.round(group.recordedBehind ?? 0), behind = waits >= BEHIND_S ? waits : 0;
  const state = { ok: behind ? "behind" : "current", err: "failing", unknown: "unknown" }[health];
  const when = health === "unknown" ? "not recorded yet" : `recorded ${moment(Date.parse(group.lastEvaluation))}`;
  const facts = [`${group.file} › ${group.name}`, `every ${group.interval} s`, when, ...(behind ? [`an hour has waited to be recorded for ${behind} s`] : [])];
  const made = element("li", { className: `rule recording ${state}` }, element("div", { className: "head" }, element("span", { className: "state" }, state), element("b", {}, visible(group.rules.map(({ name }) => name).join(", ")))),
    element("p", { className: "facts" }, facts.map(visible).join(" · ")));
  for (const rule of group.rules) if (rule.lastError) made.append(element("p", { className: "failed", role: "alert" }, visible(`${rule.name}: ${rule.lastError}`)));
  return made;
}

function row({ labels, now, changes, corrections }, group) {
  const start = Number(shown.start), end = Number(shown.end), state = now?.state ?? "inactive";
  const bars = stretches(changes, now && Date.parse(now.activeAt) <= end ? state : null, start, end).map(bar(start, end));
  const missed = corrections.map((one) => correction(one, group.interval * 1000)).map(bar(start, end));
  const named = Object.entries(labels).filter(([name]) => name !== "alertname").map(([name, value]) => `${name}=${value}`).join(" ") || "no labels";
  const told = now ? [`${state}, value ${Number(now.value)}`, ...Object.values(now.annotations)].join(" · ") : "";
  const late = corrections.map((one) => `${VERDICTS[one.verdict]} ${moment(one.from)} to ${moment(one.to)}${one.value ? `, value ${Number(one.value)}` : ""}: records came late, found ${moment(Date.parse(one.found))}`);
  return element("li", { className: state }, element("span", { className: "who" }, visible(named)), element("span", { className: "band" }, ...bars, ...missed), ...[told, ...late].map((text) => element("small", {}, visible(text))));
}

/** A correction holds for evaluations; as a stretch it lasts until the next one. */
const correction = ({ verdict, from, to }, every) => ({ state: verdict, from, to: to + every });

const bar = (start, end) => ({ state, from: first, to: last }) => {
  const [from, to] = [first, last].map((at) => Math.min(Math.max(at, start), end)), told = VERDICTS[state] ?? state;
  const made = element("i", { className: state, title: `${told} from ${moment(from)} to ${moment(to)}` }), place = (at) => `${((100 * (at - start)) / (end - start)).toFixed(3)}%`;
  made.style.left = place(from);
  made.style.right = place(start + end - to);
  return made;
};
