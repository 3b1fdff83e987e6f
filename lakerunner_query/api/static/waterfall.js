// One trace: what it is, what is wrong with it, where its time went, and a row per span.
import { $, button, copy, element, visible } from "./dom.js";
import { exact } from "./range.js";
import { linesOf, spanDetail } from "./spans.js";
import { many } from "./summary.js";
import { nsText } from "./tracetext.js";

const HUES = 10, TICKS = 5, LABEL = 0.1;
let drawn = null; // { trace, hues, folded, items, options }

export function clearTrace() {
  drawn = null;
  $("trace").hidden = true;
  $("spans").replaceChildren();
}

/** `back` is the address of the results, `all()` asks for every span, `related(q)` is the address of a query. */
export function drawTrace(trace, options) {
  const names = trace.services.map(({ name }) => name), hues = new Map(names.map((name, i) => [name, i % HUES]));
  drawn = { trace, hues, folded: new Set(), items: [], options };
  $("span-find").value = "";
  $("path-only").checked = false;
  $("trace-head").replaceChildren(...head(trace, options));
  $("findings").replaceChildren(...trace.findings.map(finding));
  $("where").replaceChildren(...where(trace, hues));
  $("span-axis").replaceChildren(...Array.from({ length: TICKS }, (_, i) => element("span", {}, i ? nsText((trace.duration_ns * i) / (TICKS - 1)) : "0")));
  drawn.items = trace.spans.map(row);
  $("spans").replaceChildren(...drawn.items);
  $("span-rest").replaceChildren(...rest(trace, options));
  $("trace").hidden = false;
}

function head(trace, { back }) {
  const { counts } = trace, root = trace.spans[trace.root], title = root ? [element("b", {}, visible(root.service)), " ", visible(root.name)] : ["a trace without a root"];
  const facts = [nsText(trace.duration_ns), many(counts.spans, "spans"), many(counts.services, "services")].join(" · ");
  const copier = button("Copy id", async () => {
    copier.textContent = await copy(trace.trace_id).then(() => "Copied", () => "The browser refused");
    setTimeout(() => { copier.textContent = "Copy id"; }, 1200);
  });
  return [...(back ? [element("a", { href: back, className: "back" }, "← results")] : []), element("h2", {}, ...title),
    element("p", {}, facts, ...(counts.errors ? [" · ", element("b", { className: "bad" }, many(counts.errors, "errors"))] : []), ` · ${exact(trace.start).slice(0, 23).replace("T", " ")} UTC · `, element("code", {}, trace.trace_id), " ", copier)];
}

const finding = ({ text, spans }) => element("li", {}, visible(text), ...(spans.length ? [" ", button("show", () => reveal(spans[0]))] : []));

/** Time on the critical path by service, as parts of one bar. */
function where({ services, spans, root }, hues) {
  const on = services.filter(({ critical_ns: ns }) => ns > 0), total = on.reduce((sum, { critical_ns: ns }) => sum + ns, 0);
  if (!total) return [];
  const parts = on.map(({ name, critical_ns: ns }) => {
    const part = element("span", { className: `hue-${hues.get(name)}`, title: `${visible(name)}: ${nsText(ns)} of the critical path` });
    part.style.flexGrow = ns / total;
    return part;
  });
  const told = on.slice(0, 8).map(({ name, critical_ns: ns, errors }) => element("li", { className: `hue-${hues.get(name)}` }, visible(name), element("b", {}, nsText(ns)), ` ${Math.round((ns / total) * 100)} %`, ...(errors ? [element("span", { className: "bad" }, ` ${many(errors, "errors")}`)] : [])));
  return [element("p", {}, `Critical path${spans[root] ? ` of ${visible(spans[root].name)}` : ""}: what its end waited for`), element("div", { className: "parts" }, ...parts), element("ul", {}, ...told)];
}

function row(span, place) {
  const { trace, hues } = drawn, lines = linesOf(trace, span), total = trace.duration_ns || 1;
  const at = (made, offset, width) => { made.style.left = `${(offset / total) * 100}%`; if (width !== undefined) made.style.width = `${(width / total) * 100}%`; return made; };
  const path = trace.critical_path.length && span.critical_ns ? sections().get(place) ?? [] : [];
  const label = element("em", {}, nsText(span.duration_ns));
  const bar = element("span", { className: "time" }, at(element("span", { className: "whole" }), span.offset_ns, span.duration_ns),
    ...path.map((one) => at(element("span", { className: "critical" }), one.offset_ns, one.duration_ns)),
    ...lines.slice(0, 50).map((line) => at(element("span", { className: "said", title: visible(line.message) }), Number(BigInt(line.timestamp) - BigInt(trace.start)))),
    beside(at, label, span, total));
  const fold = span.children ? Object.assign(button("▾", (event) => { event.stopPropagation(); turn(place); }, "fold"), { ariaLabel: `${many(span.children, "children")} of ${span.name}`, ariaExpanded: "true" }) : element("span", { className: "fold" });
  const who = element("span", { className: "who" }, fold, ...(span.status === "error" ? [element("i", { className: "bad", title: "error" }, "!")] : []), ...(span.before_parent_ns ? [element("i", { className: "skew", title: `begins ${nsText(span.before_parent_ns)} before its parent` }, "«")] : []),
    element("b", {}, visible(span.service)), element("span", { title: visible(span.name) }, visible(span.name)));
  who.style.setProperty("--depth", Math.min(span.depth, 24));
  const line = element("div", { className: "row", tabIndex: 0, role: "button", ariaExpanded: "false" }, who, bar);
  const made = element("li", { className: `hue-${hues.get(span.service)}${span.status === "error" ? " failed" : ""}` }, line);
  line.addEventListener("click", () => open(made, line, span));
  line.addEventListener("keydown", (event) => { if (event.target === line && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); open(made, line, span); } });
  return made;
}

/** Where the duration stands: behind the bar, before it, or on its end where there is no room. */
function beside(at, label, { offset_ns: offset, duration_ns: width }, total) {
  const end = offset + width;
  if ((total - end) / total > LABEL) return at(label, end);
  const isBefore = offset / total > LABEL;
  return Object.assign(at(label, isBefore ? offset : end), { className: isBefore ? "before" : "before inside" });
}

/** Sections of the critical path by the place of their span. */
function sections() {
  if (!drawn.sections) {
    drawn.sections = new Map();
    for (const one of drawn.trace.critical_path) drawn.sections.set(one.span, [...(drawn.sections.get(one.span) ?? []), one]);
  }
  return drawn.sections;
}

function open(item, line, span) {
  if (String(getSelection())) return;
  const isOpen = item.childElementCount > 1;
  if (isOpen) item.lastChild.remove();
  else item.append(spanDetail(drawn.trace, span, drawn.options.related));
  line.ariaExpanded = String(!isOpen);
}

function turn(place) {
  if (!drawn.folded.delete(place)) drawn.folded.add(place);
  arrange();
}

/** Rows below a folded one are out of sight, as are those that are not on the path where only that is shown. */
function arrange() {
  const { trace, folded, items } = drawn, wanted = $("span-find").value.trim().toLowerCase();
  let deeper = Infinity;
  for (const [place, span] of trace.spans.entries()) {
    if (span.depth <= deeper) deeper = Infinity;
    items[place].hidden = span.depth > deeper || ($("path-only").checked && !span.critical_ns);
    if (folded.has(place) && deeper === Infinity) deeper = span.depth;
    const fold = items[place].querySelector("button.fold");
    if (fold) { fold.textContent = folded.has(place) ? "▸" : "▾"; fold.ariaExpanded = String(!folded.has(place)); }
    items[place].classList.toggle("dim", Boolean(wanted) && !`${span.service} ${span.name} ${span.span_id} ${JSON.stringify(span.attributes)}`.toLowerCase().includes(wanted));
  }
}

function reveal(place) {
  drawn.folded.clear();
  $("path-only").checked = false;
  arrange();
  drawn.items[place].scrollIntoView({ block: "center" });
  drawn.items[place].firstChild.focus();
}

/** Lines of spans that are not there, and what is left out. */
function rest(trace, { all }) {
  const known = new Set(trace.spans.map(({ span_id: id }) => id)), others = trace.logs.lines.filter((line) => !known.has(line.span_id));
  return [...(trace.truncated ? [element("p", {}, `${trace.spans.length.toLocaleString("en")} of ${many(trace.counts.spans, "spans")} are shown. `, button("Show all", all))] : []),
    ...(others.length ? [element("h3", {}, "Log lines of no span that is shown"), element("ul", { className: "said-lines" }, ...others.map((line) => element("li", {}, visible(line.message))))] : []),
    ...(trace.logs.truncated ? [element("p", {}, `There are more than ${trace.logs.lines.length} log lines.`)] : [])];
}

for (const [id, event] of [["span-find", "input"], ["path-only", "change"]]) $(id).addEventListener(event, () => drawn && arrange());
$("fold-all").addEventListener("click", () => { drawn.folded = new Set(drawn.folded.size ? [] : drawn.trace.spans.flatMap(({ children, depth }, place) => (children && depth ? [place] : []))); arrange(); });
