// Series as lines over time. Lines connect neighbouring steps only: where a step is missing there is a gap.
import { follow, forget } from "./cursor.js";
import { $, element, shape, visible } from "./dom.js";
import { moment } from "./range.js";
import { duration, timeLabel, timeScale, valueLabel, valueScale } from "./scales.js";
import { stretches } from "./series.js";
import { traceHref } from "./tracetext.js";

const HEIGHT = 320, TOP = 10, BOTTOM = 24, RIGHT = 14, LETTER = 7.2, HUES = 10, EXEMPLARS = 200;
let drawn = { series: [], times: null, zoom: null, exemplars: [] };
const hidden = new Set();

/** `times` are `{ start, end, step }` in ms; `keep` leaves hidden what was hidden. */
export function drawChart(series, times, { keep, zoom, exemplars = [] }) {
  if (!keep) hidden.clear();
  drawn = { series: series.map((one, i) => ({ ...one, className: `hue-${i % HUES} dash-${Math.floor(i / HUES)}` })), times, zoom, exemplars };
  $("chart").hidden = !series.length;
  $("covers").textContent = `${moment(times.start)} to ${moment(times.end)} UTC, ${Number.isFinite(times.step) ? `a value every ${duration(times.step)}` : "times as they came"} · drag to zoom in`;
  paint();
  $("series").style.setProperty("--longest", `${Math.max(0, ...drawn.series.map(({ name }) => visible(name).length))}ch`);
  $("series").replaceChildren(...drawn.series.map(entry));
}

/** Exemplars, `{ id, ms, value }`, of what is drawn: links to their traces, above the axis of time. */
export function showExemplars(exemplars) {
  drawn.exemplars = exemplars;
  paint();
}

export function clearChart() {
  drawn = { series: [], times: null, zoom: null, exemplars: [] };
  $("chart").hidden = true;
  $("series").replaceChildren();
  forget();
}

function paint() {
  const { series, times, zoom } = drawn, width = $("plot").clientWidth;
  if (!series.length || !width) return;
  const seen = series.filter(({ key }) => !hidden.has(key)), lines = new Map(seen.map((one) => [one, stretches(one.points, times.step)]));
  const [least, greatest] = extent([...lines.values()]);
  const { low, high, step, ticks } = valueScale(least, greatest);
  const labels = ticks.map((tick) => valueLabel(tick, step, Math.max(Math.abs(low), Math.abs(high))));
  const left = 12 + LETTER * Math.max(...labels.map((text) => text.length));
  const span = times.end - times.start || 1, bottom = HEIGHT - BOTTOM, right = width - RIGHT;
  const x = (ms) => left + ((ms - times.start) / span) * (right - left);
  const y = (value) => bottom - (value / 2 - low / 2) / (high / 2 - low / 2) * (bottom - TOP); // halves: the difference of the greatest numbers is none
  const across = ticks.map((tick, i) => shape("g", {}, "tick", shape("line", { x1: left, x2: right, y1: y(tick), y2: y(tick) }),
    shape("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, "", labels[i])));
  const time = timeScale(times.start, times.end, Math.max(2, Math.floor((right - left) / 90)));
  const along = time.ticks.map((tick) => {
    const text = timeLabel(tick, time.step), half = (text.length * LETTER) / 2; // a label at the edge moves inwards
    return shape("g", {}, "tick", shape("line", { x1: x(tick), x2: x(tick), y1: bottom, y2: bottom + 4 }),
      shape("text", { x: Math.max(half, Math.min(width - half, x(tick))), y: HEIGHT - 5, "text-anchor": "middle" }, "", text));
  });
  const paths = seen.map((one) => shape("path", { d: path(lines.get(one), x, y), "data-key": one.key }, one.className));
  $("plot").setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  $("plot").setAttribute("aria-label", `${series.length} series, values from ${labels[0]} to ${labels.at(-1)}; arrow keys move along the time`);
  $("plot").replaceChildren(...across, ...along, ...paths, ...drawn.exemplars.filter(({ ms }) => ms >= times.start && ms <= times.end).slice(0, EXEMPLARS).map((one) => exemplar(one, x, bottom)));
  follow({ series: seen, times, zoom, x, y, left, right, top: TOP, bottom });
}

function exemplar({ id, ms, value }, x, bottom) {
  const [at, title] = [x(ms), `a trace: ${value}, ${moment(ms)} UTC`];
  const made = shape("a", { href: traceHref(id), "aria-label": title }, "", shape("path", { d: `M${at.toFixed(1)} ${bottom - 10}l5 5l-5 5l-5-5z` }, "exemplar"), shape("title", {}, "", title));
  made.addEventListener("pointerdown", (event) => event.stopPropagation()); // else the plot takes it for the start of a zoom
  return made;
}

/** Of all finite values; 0 to 1 where there are none. */
function extent(lines) {
  let [least, greatest] = [Infinity, -Infinity];
  for (const line of lines) for (const stretch of line) for (const [, value] of stretch) {
    if (value < least) least = value;
    if (value > greatest) greatest = value;
  }
  return least > greatest ? [0, 1] : [least, greatest];
}

/** A point without neighbours is a line of almost no length, which round ends make a dot. */
function path(line, x, y) {
  return line.map((stretch) => stretch.map(([ms, value], i) => `${i ? "L" : "M"}${x(ms).toFixed(1)} ${y(value).toFixed(1)}`).join("") + (stretch.length === 1 ? "h.01" : "")).join("");
}

function entry(one) {
  const sample = shape("svg", { viewBox: "0 0 24 8", width: 24, height: 8, "aria-hidden": "true" }, "", shape("path", { d: "M1 4H23" }, one.className));
  const made = element("button", { type: "button", className: "quiet", title: "shows or hides; with Ctrl, shows only this one" }, sample, visible(one.name));
  const state = () => { for (const [i, item] of [...$("series").children].entries()) item.firstChild.setAttribute("aria-pressed", String(!hidden.has(drawn.series[i].key))); };
  made.setAttribute("aria-pressed", String(!hidden.has(one.key)));
  made.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey) for (const { key } of drawn.series) key === one.key ? hidden.delete(key) : hidden.add(key);
    else if (!hidden.delete(one.key)) hidden.add(one.key);
    state();
    paint();
  });
  const mark = (on) => () => $("plot").querySelectorAll("path").forEach((line) => line.classList.toggle("dim", on && line.dataset.key !== one.key));
  for (const [event, on] of [["pointerenter", true], ["focus", true], ["pointerleave", false], ["blur", false]]) made.addEventListener(event, mark(on));
  return element("li", {}, made);
}

/** Redrawn when its width changes, which coming back from the other view is too. */
if (typeof ResizeObserver !== "undefined") addEventListener("DOMContentLoaded", () => new ResizeObserver(paint).observe($("plot")));
