// Which time is asked for, and how times are written. Everything is UTC; nanoseconds exceed a JavaScript
// number, so they stay BigInt or text.
import { $ } from "./dom.js";

const SECONDS = { "5m": 300, "15m": 900, "1h": 3600, "6h": 21600, "24h": 86400, "7d": 604800, "30d": 2592000 };
const MS = 1000000n;

export const millis = (ns) => Number(BigInt(ns) / MS);
export const nanos = (ms) => BigInt(Math.round(ms)) * MS;

/** 11-18 10:28:01.992 */
export const clock = (ms) => new Date(ms).toISOString().slice(5, 23).replace("T", " ");

/** 2026-11-18T10:28:01.992981442Z */
export const exact = (ns) => `${new Date(millis(ns)).toISOString().slice(0, 19)}.${ns.padStart(9, "0").slice(-9)}Z`;

/** 2026-11-18 10:28, with seconds where there are some */
export const moment = (ms) => new Date(ms).toISOString().slice(0, 19).replace("T", " ").replace(/:00$/, "");

/** `s` and `e` of a request as chosen; throws with what is missing. */
export function asked() {
  const preset = $("range").value;
  if (preset !== "custom") return { s: `e-${preset}`, e: "now" };
  const [from, to] = [$("from").value, $("to").value].map((text) => Date.parse(`${text}Z`));
  if (Number.isNaN(from) || Number.isNaN(to)) throw new Error("Choose both ends of the time range.");
  if (from >= to) throw new Error("The range ends before it begins.");
  return { s: String(nanos(from)), e: String(nanos(to)) };
}

/** The asked range as fixed nanoseconds; "now" is the server's, whose clock the lines are compared with. */
export function pinned({ s, e }, serverNow) {
  if (e !== "now") return { start: BigInt(s), end: BigInt(e) };
  const end = nanos(serverNow + 1000);
  return { start: end - BigInt(SECONDS[s.slice(2)]) * 1000n * MS, end };
}

export function choose(preset) {
  $("range").value = Object.hasOwn(SECONDS, preset) ? preset : "custom";
  $("custom").hidden = $("range").value !== "custom";
}

export function chooseBetween(fromMs, toMs) {
  $("from").value = new Date(fromMs).toISOString().slice(0, 23);
  $("to").value = new Date(toMs).toISOString().slice(0, 23);
  choose("custom");
}

/** Going to custom starts from what was on screen. */
export function rangeChanged(shown) {
  if ($("range").value === "custom" && shown) chooseBetween(millis(shown.start), millis(shown.end + MS - 1n));
  else choose($("range").value);
}

function wider() {
  const all = Object.keys(SECONDS);
  const at = all.indexOf($("range").value);
  return at === -1 ? "24h" : all[at + (at < 2 ? 2 : 1)];
}

/** What a button says and does that looks further back; nothing where there is no further. */
export function widening(run) {
  const preset = wider();
  return preset ? [`Search the last ${preset}`, () => { choose(preset); run(); }] : [];
}
