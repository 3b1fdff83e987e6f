// Found traces as dots: when each began, and how long it took. The scale of durations is logarithmic.
import { $, shape, visible } from "./dom.js";
import { clock, millis } from "./range.js";
import { timeLabel, timeScale } from "./scales.js";
import { nsText } from "./tracetext.js";

const HEIGHT = 150, TOP = 10, BOTTOM = 22, LEFT = 58, RIGHT = 14;
let drawn = null;

export function drawDots(traces, window, errorsOf, href) {
  drawn = traces.length ? { traces, window, errorsOf, href } : null;
  $("dots").hidden = !drawn;
  paint();
}

export function clearDots() {
  drawn = null;
  $("dots").hidden = true;
}

/** The powers of ten around durations in nanoseconds: `[least, greatest]`. */
export function decades(durations) {
  const logs = durations.map((ns) => Math.log10(Math.max(1, ns)));
  const low = Math.floor(Math.min(...logs)), high = Math.ceil(Math.max(...logs));
  return [low, Math.max(high, low + 1)];
}

function paint() {
  const width = $("dots-plot").clientWidth;
  if (!drawn || !width) return;
  const { traces, window, errorsOf, href } = drawn, start = millis(window.start), end = millis(window.end);
  const [low, high] = decades(traces.map(({ duration_ns: ns }) => ns)), bottom = HEIGHT - BOTTOM;
  const x = (ms) => LEFT + Math.max(0, Math.min(1, (ms - start) / (end - start || 1))) * (width - LEFT - RIGHT);
  const y = (ns) => bottom - ((Math.log10(Math.max(1, ns)) - low) / (high - low)) * (bottom - TOP);
  const across = Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i)).map((ns) => shape("g", {}, "tick",
    shape("line", { x1: LEFT, x2: width - RIGHT, y1: y(ns), y2: y(ns) }), shape("text", { x: LEFT - 6, y: y(ns) + 4, "text-anchor": "end" }, "", nsText(ns))));
  const time = timeScale(start, end, Math.max(2, Math.floor((width - LEFT) / 90)));
  const along = time.ticks.map((tick) => shape("g", {}, "tick", shape("line", { x1: x(tick), x2: x(tick), y1: bottom, y2: bottom + 4 }),
    shape("text", { x: Math.min(width - 24, x(tick)), y: HEIGHT - 5, "text-anchor": "middle" }, "", timeLabel(tick, time.step))));
  const dots = traces.map((trace) => {
    const title = `${visible(trace.root_service)} ${visible(trace.root_name)}\n${nsText(trace.duration_ns)}, ${clock(millis(trace.start))}`;
    const dot = shape("circle", { cx: x(millis(trace.start)), cy: y(trace.duration_ns), r: 4 }, errorsOf(trace) ? "failed" : "");
    return shape("a", { href: href(trace), "aria-label": title }, "", dot, shape("title", {}, "", title));
  });
  $("dots-plot").setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  $("dots-plot").replaceChildren(...across, ...along, ...dots);
}

if (typeof ResizeObserver !== "undefined") addEventListener("DOMContentLoaded", () => new ResizeObserver(paint).observe($("dots-plot")));
