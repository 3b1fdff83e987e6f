// One query at a time, whichever view asks: its errors on screen, its numbers in the status line.
//
// A view is `{ name, every, ask(options), settle(), blank(), count(), summary(done, seconds), query() }`; one with
// `told(error)` may say itself what is wrong.
import { remember } from "./address.js";
import { key } from "./api.js";
import { $ } from "./dom.js";
import * as notices from "./notices.js";

let running = null; // AbortController of the query in flight
let timer = 0;

export const busy = () => running !== null;
export const stop = () => running?.abort();
export const unplanned = () => clearTimeout(timer);

/** What runs, or would run again, no longer reaches the screen. */
export function drop() {
  const old = running;
  running = null;
  unplanned();
  old?.abort();
  show(false);
}

/** A fresh answer. `quiet` (live) keeps the old one on screen until the new one is complete. */
export function start(view, options = {}) {
  if (!key.get()) { notices.clear(); view.blank(); return notices.showNoKey(); }
  remember(view.name);
  view.asked = true; // coming back to it asks again
  return view.ask(options);
}

export async function guarded(view, quiet, work) {
  drop();
  const mine = running = new AbortController(), began = performance.now();
  if (!quiet) { notices.clear(); $("status").textContent = "running …"; }
  show(true);
  try {
    const done = await work(mine.signal);
    if (mine === running) $("status").textContent = view.summary(done, (performance.now() - began) / 1000);
  } catch (error) {
    if (mine !== running) return;
    const stopped = error.name === "AbortError";
    $("status").textContent = stopped ? `stopped, ${view.count()}` : "failed";
    if (!stopped && !view.told?.(error)) notices.showError(error, view.query());
    $("live").checked = false;
  } finally {
    if (mine === running) settle(view);
  }
}

function show(runs) {
  $("run").textContent = runs ? "Stop" : "Run";
  document.body.classList.toggle("busy", runs);
}

function settle(view) {
  running = null;
  show(false);
  view.settle();
  if ($("live").checked) timer = setTimeout(() => (document.hidden ? settle(view) : start(view, { quiet: true })), view.every);
}
