// Alerts: the rules, what fires now, and how that changed over the range.
import { ask } from "./api.js";
import { $, element, visible } from "./dom.js";
import * as notices from "./notices.js";
import { asked, moment } from "./range.js";
import { guarded, start } from "./runner.js";
import { many } from "./summary.js";

const VIEWS = { promql: "metrics", logql: "logs", traceql: "traces", lakeql: "sql" };
const ORDER = { firing: 0, pending: 1, inactive: 2 };
const NOTHING = { groups: [], changes: [], waiting: [] };
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
  summary: (done, seconds) => [alerts.count(), ...["firing", "pending"].map((state) => `${active(state)} ${state}`), `${shown.changes.length}${shown.is_complete ? "" : "+"} changes`, `${seconds.toFixed(2)} s`].join(" · "),
};

async function run({ quiet = false } = {}) {
  await guarded(alerts, quiet, async (signal) => {
    const { s, e } = asked(), json = async (path, body) => (await ask(path, body, signal)).json();
    const [{ data }, history] = await Promise.all([json("/prometheus/api/v1/rules"), json("/api/v1/alerts", new URLSearchParams({ start: s, end: e }))]);
    if (!quiet) alerts.blank();
    else notices.clear();
    shown = { ...history, groups: data.groups };
    if (rules().length) draw();
    else notices.showNothing("No rules yet. Apply a file: lakerunner rules apply FILE");
    const late = shown.waiting.map(({ receiver, waiting, oldest_s }) => `${many(waiting, "notifications")} wait for the ${receiver}, the oldest for ${Math.round(oldest_s)} s`);
    if (late.length) notices.showNotes(late, "warn");
    return {};
  });
}

/** All alerting rules with their groups; what fires comes first. */
const rules = () => shown.groups.flatMap((group) => group.rules.filter(({ type }) => type === "alerting").map((rule) => ({ group, rule })))
  .sort((a, b) => ORDER[a.rule.state] - ORDER[b.rule.state]);
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

/** The alerts of a rule that were, or are, active in the range: `{ labels, now, changes }`. */
export function history(rule, group, changes) {
  const found = new Map(), of = (labels) => found.get(identity(labels)) ?? found.set(identity(labels), { labels, now: null, changes: [] }).get(identity(labels));
  for (const one of rule.alerts) Object.assign(of(one.labels), { now: one });
  for (const one of changes) if (one.rule_group === group.name && one.file === group.file && one.alert === rule.name) of(one.labels).changes.push({ ...one, at: Date.parse(one.at) });
  return [...found.values()];
}

function draw() {
  $("alert-rules").replaceChildren(...rules().map(({ group, rule }) => card(group, rule)));
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
  const rows = history(rule, group, shown.changes).map(row);
  if (rows.length) made.append(element("ul", { className: "times" }, ...rows));
  return made;
}

function row({ labels, now, changes }) {
  const start = Number(shown.start), end = Number(shown.end), state = now?.state ?? "inactive";
  const bars = stretches(changes, now && Date.parse(now.activeAt) <= end ? state : null, start, end).map(bar(start, end));
  const named = Object.entries(labels).filter(([name]) => name !== "alertname").map(([name, value]) => `${name}=${value}`).join(" ") || "no labels";
  const told = now ? [`${state}, value ${Number(now.value)}`, ...Object.values(now.annotations)].join(" · ") : "";
  return element("li", { className: state }, element("span", { className: "who" }, visible(named)), element("span", { className: "band" }, ...bars), element("small", {}, visible(told)));
}

const bar = (start, end) => ({ state, from, to }) => {
  const made = element("i", { className: state, title: `${state} from ${moment(from)} to ${moment(to)}` }), place = (at) => `${((100 * (at - start)) / (end - start)).toFixed(3)}%`;
  made.style.left = place(from);
  made.style.right = place(start + end - to);
  return made;
};
