// The time under the pointer, or chosen by the arrow keys, and what the series are then; dragging zooms in.
import { $, element, shape, visible } from "./dom.js";
import { exact, nanos } from "./range.js";
import { readable } from "./scales.js";
import { pointAt } from "./series.js";

const ROWS = 12, DRAG = 8;
let chart = null, place = null, pressed = null;

export function follow(next) {
  chart = next;
  $("tip").hidden = true;
  place = null;
}

export function forget() {
  chart = pressed = place = null;
  $("tip").hidden = true;
}

/** The whole step nearest to a place on the axis, within the range; of times in any distance the nearest one. */
export function nearestStep({ start, end, step, moments }, ms) {
  if (moments) return moments.reduce((best, one) => (Math.abs(one - ms) < Math.abs(best - ms) ? one : best), moments[0]);
  const last = Math.floor((end - start) / step);
  return start + Math.max(0, Math.min(last, Math.round((ms - start) / step))) * step;
}

/** `[series, point]` of those that have a value then: the greatest first, at most `most` around the nearest. */
export function valuesAt(series, ms, value, most) {
  const found = series.map((one) => [one, pointAt(one.points, ms)]).filter(([, point]) => point);
  found.sort(([, a], [, b]) => (b[1] > a[1] ? 1 : b[1] < a[1] ? -1 : 0));
  const away = ([, point]) => (Number.isFinite(point[1]) ? Math.abs(point[1] - value) : Infinity);
  const nearest = found.reduce((best, one, i) => (away(one) < away(found[best]) ? i : best), 0);
  const from = Math.max(0, Math.min(nearest - Math.floor(most / 2), found.length - most));
  return { rows: found.slice(from, from + most), nearest: found[nearest]?.[0] ?? null, more: Math.max(0, found.length - most) };
}

function show(ms, y) {
  const { series, x, top, bottom, left, right } = chart, box = $("plot");
  place = ms;
  const low = chart.y(0), unit = chart.y(1) - low; // y is linear: its inverse needs two points of it
  const { rows, nearest, more } = valuesAt(series, ms, y === null ? Infinity : (y - low) / unit, ROWS);
  box.querySelector(".cursor")?.remove();
  box.append(shape("g", {}, "cursor", shape("line", { x1: x(ms), x2: x(ms), y1: top, y2: bottom }),
    ...rows.filter(([, [, value]]) => Number.isFinite(value)).map(([one, [, value]]) => shape("circle", { cx: x(ms), cy: chart.y(value), r: 3 }, one.className))));
  const time = exact(String(nanos(ms))).replace(/\.?0+Z$/, " UTC").replace("T", " ");
  $("tip").replaceChildren(element("strong", {}, time), ...rows.map(([one, [, value, text]]) => element("div", one === nearest ? { className: "nearest" } : {},
    shape("svg", { viewBox: "0 0 24 8", width: 24, height: 8 }, "", shape("path", { d: "M1 4H23" }, one.className)), element("span", {}, visible(one.name)), element("b", {}, readable(value, text)))),
  ...(rows.length ? [] : ["no values"]), ...(more ? [`… ${more} more`] : []));
  $("tip").hidden = false;
  const after = x(ms) < (left + right) / 2; // beside the line, where there is more room
  const at = x(ms) + box.getBoundingClientRect().left, frame = $("chart").getBoundingClientRect();
  $("tip").style.left = after ? `${at - frame.left + 12}px` : "auto";
  $("tip").style.right = after ? "auto" : `${frame.right - at + 12}px`;
}

function hide() {
  $("plot").querySelector(".cursor")?.remove();
  $("tip").hidden = true;
  place = null;
}

const timeAt = ({ left, right, times }, px) => times.start + ((px - left) / (right - left)) * (times.end - times.start);

/** Where in the drawing; `offsetX` of SVG differs from browser to browser. */
function spot({ clientX, clientY }) {
  const { left, top } = $("plot").getBoundingClientRect();
  return [Math.max(chart.left, Math.min(chart.right, clientX - left)), clientY - top];
}

function moved(event) {
  if (!chart) return;
  const [x, y] = spot(event);
  show(nearestStep(chart.times, timeAt(chart, x)), y);
  if (pressed === null) return;
  const [from, to] = [pressed, x].sort((a, b) => a - b);
  $("plot").querySelector(".cursor").append(shape("rect", { x: from, y: chart.top, width: to - from, height: chart.bottom - chart.top }, "picked"));
}

function released(event) {
  const from = pressed;
  pressed = null;
  if (!chart || from === null || Math.abs(spot(event)[0] - from) < DRAG) return;
  const [low, high] = [from, spot(event)[0]].sort((a, b) => a - b).map((px) => timeAt(chart, px) / 1000);
  chart.zoom(Math.floor(low) * 1000, Math.ceil(high) * 1000); // whole seconds: the range is read by people
}

function keyed(event) {
  if (!chart) return;
  const { start, end, step, moments } = chart.times, by = (event.shiftKey ? 10 : 1) * (moments ? 1 : step);
  const of = (at) => (moments ? moments[Math.max(0, Math.min(moments.length - 1, at))] : at), here = moments ? moments.indexOf(place) : place;
  const known = place !== null && here !== -1, ends = moments ? [0, moments.length - 1] : [start, end];
  const to = { ArrowLeft: of(known ? here - by : ends[1]), ArrowRight: of(known ? here + by : ends[0]), Home: start, End: end }[event.key];
  if (event.key === "Escape" && place !== null) { event.preventDefault(); hide(); }
  if (to === undefined) return;
  event.preventDefault();
  show(nearestStep(chart.times, to), null);
  $("told").textContent = $("tip").innerText;
}

if (typeof document !== "undefined") addEventListener("DOMContentLoaded", () => {
  const plot = $("plot");
  plot.addEventListener("pointermove", moved);
  plot.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !chart) return;
    pressed = spot(event)[0];
    plot.setPointerCapture(event.pointerId);
  });
  plot.addEventListener("pointerup", released);
  plot.addEventListener("pointercancel", () => { pressed = null; });
  for (const event of ["pointerleave", "blur"]) plot.addEventListener(event, hide);
  plot.addEventListener("keydown", keyed);
});
