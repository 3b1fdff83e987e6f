// Where the ticks of an axis stand, and what is written at them.
const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const STEPS = [...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND), ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR), ...[1, 2, 7, 14, 30].map((n) => n * DAY)];

/** The least of 1, 2, 5 times a power of ten that cuts `span` into at most `most` parts. */
export function niceStep(span, most) {
  const power = 10 ** Math.floor(Math.log10(span / most));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => span / step <= most) ?? 10 * power;
}

/** `{ low, high, step, ticks }` for values; the ends are ticks. From 0 if the values come near it. */
export function valueScale(least, greatest, most = 6) {
  let [low, high] = [least, greatest];
  if (low === high) [low, high] = low === 0 ? [0, 1] : [low - Math.abs(low) / 10, high + Math.abs(high) / 10];
  if (low > 0 && low < high / 2) low = 0;
  if (high < 0 && high > low / 2) high = 0;
  const step = niceStep(high - low, most);
  // beyond what numbers can tell apart there is nothing nice to choose
  if (!Number.isFinite(high - low) || low + step === low || high + step === high || !(step > 0)) return { low, high, step: high - low, ticks: [low, high] };
  const first = Math.floor(low / step), last = Math.ceil(high / step);
  const ticks = Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(15)));
  return { low: ticks[0], high: ticks.at(-1), step, ticks };
}

/** `{ step, ticks }` in milliseconds, on whole seconds, minutes, hours or days of UTC. */
export function timeScale(start, end, most = 8) {
  const span = end - start;
  const step = STEPS.find((one) => span / one <= most) ?? Math.ceil(span / most / DAY) * DAY;
  const first = Math.ceil(start / step) * step, ticks = [];
  for (let at = first; at <= end; at += step) ticks.push(at);
  return { step, ticks };
}

/** 10:30, 10:30:15, or 11-18 where a day begins. */
export function timeLabel(ms, step) {
  const text = new Date(ms).toISOString();
  return ms % DAY === 0 ? text.slice(5, 10) : text.slice(11, step < MINUTE ? 19 : 16);
}

/** 15 s, 1.5 min, 2 h */
export function duration(ms) {
  const [unit, name] = [[DAY, "d"], [HOUR, "h"], [MINUTE, "min"], [SECOND, "s"]].find(([one]) => ms >= one) ?? [1, "ms"];
  return `${Number((ms / unit).toFixed(1))} ${name}`;
}

/** Six digits of a value, or all of its whole part: what can be read in passing. */
export function readable(value, text) {
  if (!Number.isFinite(value) || Number.isInteger(value)) return text;
  return String(Number(value.toPrecision(Math.max(6, String(Math.trunc(Math.abs(value))).length))));
}

/** As many digits as tell neighbouring ticks apart: `1.5 M`, `0.25`, `2e-7`. */
export function valueLabel(value, step, greatest) {
  if (value === 0) return "0";
  const size = Math.abs(greatest);
  if (size < 1e-3 || size >= 1e15) return String(Number(value.toPrecision(3)));
  const [unit, suffix] = [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e4, " k"], [1, ""]].find(([one]) => size >= one) ?? [1, ""];
  const scale = unit === 1e4 ? 1e3 : unit;
  const decimals = Math.min(12, Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9)));
  return (value / scale).toFixed(decimals) + suffix;
}
