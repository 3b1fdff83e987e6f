// What opens beneath a row of the waterfall: times, attributes, events, links, log lines and exemplars of a span.
import { button, copy, element, visible } from "./dom.js";
import { levelOf } from "./levels.js";
import { millis } from "./range.js";
import { named } from "./series.js";
import { having, nsText, traceHref } from "./tracetext.js";

const AROUND_MS = 600000;

export const linesOf = (trace, span) => (span.lines ? trace.logs.lines.filter((line) => line.span_id === span.span_id) : []);

/** `related(q)` is the address of a TraceQL query. */
export function spanDetail(trace, span, related) {
  const lines = linesOf(trace, span), exemplars = trace.exemplars.filter((one) => one.span_id && one.span_id === span.span_id);
  const parent = trace.spans[span.parent], section = (title, ...children) => (children.length ? [element("h3", {}, title), ...children] : []);
  const facts = [["duration", nsText(span.duration_ns)], ["itself", `${nsText(span.self_ns)}, while no child ran`], ["critical path", span.critical_ns ? nsText(span.critical_ns) : "not on it"], ["begins", `${nsText(span.offset_ns)} into the trace${span.before_parent_ns ? `, ${nsText(span.before_parent_ns)} before its parent: the clocks disagree` : ""}`],
    ["kind", span.kind], ["status", [span.status, span.status_message].filter(Boolean).join(": ")], ["span id", span.span_id], ["parent", parent ? `${parent.service} ${parent.name}` : span.parent_span_id ? `${span.parent_span_id}, which is not stored` : "none"], ...(span.scope.name ? [["scope", `${span.scope.name} ${span.scope.version}`.trim()]] : [])];
  return element("div", { className: "detail" },
    copier("Copy as JSON", JSON.stringify(span, null, 2)), element("a", { href: related(`{ resource.service.name = ${JSON.stringify(span.service)} && name = ${JSON.stringify(span.name)} }`) }, "Spans like this"),
    element("h3", {}, "Span"), element("dl", {}, ...facts.flatMap(([name, value]) => pair(name, value))),
    ...section("Attributes", ...attributes("span", span.attributes, related)),
    ...section("Resource", ...attributes("resource", trace.resources[span.resource] ?? {}, related)),
    ...section("Events", ...span.events.map((one) => element("div", { className: "event" }, element("b", {}, `${nsText(one.offset_ns - span.offset_ns)} `), visible(one.name), ...attributes("event", one.attributes, related)))),
    ...section("Links", ...span.links.map((one) => element("div", { className: "event" }, element("a", { href: traceHref(one.trace_id) }, one.trace_id), ` span ${one.span_id}`, ...attributes("link", one.attributes, related)))),
    ...section("Log lines", ...(lines.length ? [element("ul", { className: "said-lines" }, ...lines.map((line) => said(trace, line))), element("a", { href: logsHref(trace, lines[0]) }, "All lines of this trace")] : [])),
    ...section("Exemplars", ...exemplars.map((one) => element("div", { className: "event" }, element("a", { href: metricsHref(trace, one.series) }, visible(named(one.series))), ` = ${one.value}`))));
}

function said(trace, line) {
  const level = levelOf(line);
  return element("li", { className: `level-${level}` }, element("b", {}, nsText(Number(BigInt(line.timestamp) - BigInt(trace.start)))), " ", element("span", { className: "level" }, level === "unknown" ? "" : level), " ", element("span", { className: "line" }, visible(line.message)));
}

function attributes(scope, values, related) {
  const found = Object.entries(values).flatMap(([name, value]) => {
    const query = having(scope, name, value);
    return pair(name, typeof value === "object" ? JSON.stringify(value) : String(value), ...(query ? [element("a", { href: related(query), title: query, ariaLabel: `spans with this ${name}` }, "=")] : []));
  });
  return found.length ? [element("dl", {}, ...found)] : [];
}

const pair = (name, value, ...more) => [element("dt", {}, visible(name)), element("dd", {}, visible(value), ...more)];

/** A fixed range around the trace. */
function around(trace) {
  const from = millis(trace.start), text = (ms) => new Date(ms).toISOString().slice(0, 19);
  return { range: "custom", from: text(from - AROUND_MS), to: text(from + trace.duration_ns / 1e6 + AROUND_MS) };
}

const logsHref = (trace, line) => `#${new URLSearchParams({ q: `{service_name=~".+"} | trace_id=${JSON.stringify(line.metadata.trace_id ?? trace.trace_id)}`, ...around(trace), order: "oldest" })}`;
const metricsHref = (trace, series) => `#${new URLSearchParams({ view: "metrics", q: named(series), ...around(trace), show: "chart" })}`;

function copier(text, content) {
  const made = button(text, async () => {
    made.textContent = await copy(content).then(() => "Copied", () => "The browser refused");
    setTimeout(() => { made.textContent = text; }, 1200);
  });
  return made;
}
