// Map: which service calls which, drawn from the metrics that are derived from spans.
import { ask } from "./api.js";
import { $, element, shape, visible } from "./dom.js";
import { head, HEIGHT, layout, path, WIDTH } from "./layers.js";
import * as notices from "./notices.js";
import { asked, widening } from "./range.js";
import { guarded, start } from "./runner.js";
import { many } from "./summary.js";

const NOTHING = { nodes: [], edges: [], unpaired_spans: 0 };
const KINDS = { database: "database", messaging_system: "queue", virtual_node: "no spans of its own" };
const LEAST = 0.7; // smaller than this, and it scrolls
let shown = NOTHING, picked = null;

export const map = {
  name: "map", language: "Service map", every: 15000, text: "", asked: true,
  ask: run, explain() {}, settle() {},
  examples: () => start(map),
  answer: () => "map",
  blank() { shown = NOTHING; picked = null; for (const id of ["map", "map-detail", "map-edges"]) $(id).hidden = true; },
  count: () => many(shown.nodes.length, "services"),
  query: () => "",
  window: () => (shown.end ? { start: BigInt(shown.start) * 1000000n, end: BigInt(shown.end) * 1000000n } : null),
  summary: (done, seconds) => [map.count(), many(shown.edges.length, "connections"), ...(shown.unpaired_spans ? [`${many(shown.unpaired_spans, "spans")} without their other end`] : []), `${seconds.toFixed(2)} s`].join(" · "),
};

async function run({ quiet = false } = {}) {
  await guarded(map, quiet, async (signal) => {
    const { s, e } = asked();
    const found = await (await ask("/api/v1/service-map", new URLSearchParams({ start: s, end: e }), signal)).json();
    if (!quiet) map.blank();
    else notices.clear();
    shown = found;
    if (found.nodes.length) draw();
    else notices.showNothing("No spans in this range", ...widening(() => start(map)));
    if (found.warnings) notices.showNotes(found.warnings, "warn");
    return { status: found.status };
  });
}

const share = ({ requests, errors }) => (requests ? errors / requests : 0);
export const number = (value) => (value >= 100 ? value.toFixed(0) : value >= 1 ? value.toFixed(1) : value.toPrecision(2).replace(/\.?0+$/, "") || "0");
export const seconds = (value) => (value === null ? "–" : value >= 1 ? `${value.toFixed(2)} s` : `${number(value * 1000)} ms`);
export const percent = (value) => (value === 0 ? "0 %" : value < 0.001 ? "< 0.1 %" : `${(100 * value).toFixed(1)} %`);

/** Words about a node or an edge. */
const words = (one) => `${number(one.rate)}/s · ${percent(share(one))} errors · p50 ${seconds(one.p50)} · p95 ${seconds(one.p95)} · p99 ${seconds(one.p99)}`;

function draw() {
  const between = new Map(), lane = (pair) => between.set(pair, (between.get(pair) ?? -1) + 1).get(pair);
  const edges = shown.edges.map((one) => ({ ...one, from: one.client, to: one.server, lane: lane(`${one.client}\n${one.server}`) }));
  const { width, height, places } = layout([...shown.nodes.map(({ name }) => name), ...edges.flatMap(({ from, to }) => [from, to])], edges);
  const most = Math.max(...shown.edges.map(({ rate }) => rate), Number.MIN_VALUE);
  const svg = $("map-plot");
  for (const [name, value] of Object.entries({ viewBox: `0 0 ${width} ${height + HEIGHT / 2}`, width, height: height + HEIGHT / 2 })) svg.setAttribute(name, value);
  svg.replaceChildren(...edges.map((one) => drawnEdge(one, places, most)), ...shown.nodes.map((one) => drawnNode(one, places.get(one.name))));
  svg.style.minWidth = `${Math.round(LEAST * width)}px`;
  table();
  $("map").hidden = false;
  if (picked) choose(picked);
}

function drawnEdge(one, places, most) {
  const ends = [places.get(one.from), places.get(one.to), one.lane], d = path(...ends), wide = 1 + 6 * Math.sqrt(one.rate / most);
  const line = shape("path", { d, "stroke-width": wide.toFixed(2) }, "line"), tip = shape("polygon", { points: head(...ends) }, "tip");
  return live(shape("g", { tabindex: 0, role: "button", "aria-label": visible(`${one.from} calls ${one.to}: ${words(one)}`) }, `edge ${one.connection_type}`, shape("path", { d }, "hit"), line, tip), one, `${one.from} → ${one.to}`);
}

function drawnNode(one, { x, y }) {
  const note = KINDS[one.kind], text = visible(one.name), called = one.requests > 0;
  const label = (at, content, name) => shape("text", { x: x + 12, y: y + at }, name, content);
  const body = shape("rect", { x, y, width: WIDTH, height: HEIGHT, rx: one.kind === "service" ? 6 : 26 }, "body");
  const parts = [label(23, text.length > 22 ? `${text.slice(0, 21)}…` : text, "name"), label(42, called ? `${number(one.rate)}/s · ${percent(share(one))} · ${seconds(one.p95)}` : note ?? "", "numbers")];
  return live(shape("g", { tabindex: 0, role: "button", "aria-label": `${text}: ${words(one)}` }, `node ${one.kind}`, body, ...parts), one, one.name, note);
}

/** A shape that tells about itself, and is chosen by a click or by Enter. */
function live(group, one, title, note) {
  group.style.setProperty("--share", `${Math.round(100 * Math.min(1, 4 * share(one)))}%`);
  const tell = (event) => tip(event, title, one, note);
  for (const name of ["pointermove", "focus"]) group.addEventListener(name, tell);
  for (const name of ["pointerleave", "blur"]) group.addEventListener(name, () => { $("map-tip").hidden = true; });
  group.addEventListener("click", () => choose(one));
  group.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); choose(one); } });
  return group;
}

function tip(event, title, one, note) {
  const box = $("map").getBoundingClientRect(), at = event.target.getBoundingClientRect();
  const [x, y] = event.clientX === undefined ? [at.left, at.bottom] : [event.clientX, event.clientY];
  $("map-tip").replaceChildren(element("b", {}, visible(title)), ...[note, KINDS[one.connection_type]].filter(Boolean).map((text) => element("div", {}, text)), element("div", {}, `${one.requests} requests, ${one.errors} failed`), element("div", {}, words(one)));
  $("map-tip").hidden = false;
  $("map-tip").style.left = `${Math.min(x - box.left + 14, box.width - $("map-tip").offsetWidth - 8)}px`;
  $("map-tip").style.top = `${y - box.top + 14}px`;
}

const quoted = (text) => JSON.stringify(text);

/** Links that show the traces and the metrics of a node or an edge, as the address spells them. */
export function links(one) {
  if (one.name === undefined) {
    const of = `{client=${quoted(one.client)},server=${quoted(one.server)}}`;
    const called = one.connection_type ? `{resource.service.name=${quoted(one.client)} && (kind=client || kind=producer)}` : `{resource.service.name=${quoted(one.client)}} > {resource.service.name=${quoted(one.server)}}`;
    return [["Traces", "traces", called], ["Requests", "metrics", `sum(rate(traces_service_graph_request_total${of}[5m]))`], ["Durations", "metrics", `histogram_quantile(0.95, sum by (le) (rate(traces_service_graph_request_server_seconds_bucket${of}[5m])))`]];
  }
  if (one.kind !== "service") return [["Requests", "metrics", `sum by (client) (rate(traces_service_graph_request_total{server=${quoted(one.name)}}[5m]))`]];
  const of = `{service=${quoted(one.name)}}`;
  return [["Traces", "traces", `{resource.service.name=${quoted(one.name)}}`], ["Requests", "metrics", `sum by (span_name, status_code) (rate(traces_spanmetrics_calls_total${of}[5m]))`], ["Durations", "metrics", `histogram_quantile(0.95, sum by (le, span_name) (rate(traces_spanmetrics_latency_bucket${of}[5m])))`]];
}

function choose(one) {
  picked = one;
  const kept = $("range").value === "custom" ? { range: "custom", from: $("from").value, to: $("to").value } : { range: $("range").value };
  const anchors = links(one).map(([text, view, q]) => element("a", { href: `#${new URLSearchParams({ view, q, ...kept })}`, title: q }, text));
  $("map-detail").replaceChildren(element("h2", {}, visible(one.name ?? `${one.client} → ${one.server}`)), element("p", {}, `${one.requests} requests, ${one.errors} failed · ${words(one)}`), element("nav", {}, ...anchors));
  $("map-detail").hidden = false;
}

function table() {
  const cells = (one) => [one.client, one.server, one.connection_type || "direct", number(one.rate), percent(share(one)), seconds(one.p50), seconds(one.p95), seconds(one.p99)];
  const rows = [...shown.edges].sort((a, b) => b.requests - a.requests).map((one) => element("tr", { onclick: () => choose(one) }, ...cells(one).map((text) => element("td", {}, visible(text)))));
  $("map-edges").tBodies[0].replaceChildren(...rows);
  $("map-edges").hidden = !rows.length;
}
