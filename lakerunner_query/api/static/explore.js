// Explore: six views, one query box. This file binds the controls; runner.js is the order of events.
import { recall, remember } from "./address.js";
import { alerts } from "./alerts.js";
import { key } from "./api.js";
import { $ } from "./dom.js";
import { logs } from "./logs.js";
import { map } from "./map.js";
import { metrics } from "./metrics.js";
import * as notices from "./notices.js";
import * as range from "./range.js";
import { busy, drop, start, stop, unplanned } from "./runner.js";
import { binding, sql } from "./sql.js";
import { traces } from "./traces.js";
import { suggesting } from "./suggest.js";

const VIEWS = { logs, metrics, traces, map, alerts, sql };
let view = logs;

/** The controls of a view; its results are where they were left. */
function dress(name) {
  view = VIEWS[name];
  document.body.dataset.view = name;
  document.body.dataset.answer = view.answer();
  $(`view-${name}`).checked = true;
  $("query").setAttribute("aria-label", `${view.language} query`);
  $("query").title = view.keys ?? "Enter runs, Shift+Enter is a new line, Esc stops";
  $("every").textContent = `Live, every ${view.every / 1000} s`;
}

function begin(run) {
  if (!key.get()) notices.showNoKey();
  else if (run) start(view);
  else view.examples((text) => { $("query").value = text; start(view); });
}

function turnTo(name) {
  drop();
  notices.clear();
  $("status").textContent = "";
  $("live").checked = false;
  view.text = $("query").value;
  view.leave?.();
  dress(name);
  $("query").value = view.text;
  remember(name);
  view.enter?.();
  begin(view.asked);
}

$("key").value = key.get();
$("key").addEventListener("input", () => key.set($("key").value));
$("form").addEventListener("submit", (event) => { event.preventDefault(); busy() ? stop() : start(view); });
for (const name of Object.keys(VIEWS)) $(`view-${name}`).addEventListener("change", () => turnTo(name));
for (const id of ["show", "step"]) $(id).addEventListener("change", () => (view === metrics || view.asked) && start(view));
for (const id of ["order", "limit"]) $(id).addEventListener("change", () => view.asked && start(view));
$("range").addEventListener("change", () => {
  range.rangeChanged(view.window());
  if (view.asked && $("range").value !== "custom") start(view);
});
$("explain").addEventListener("click", () => view.explain());
$("more").addEventListener("click", logs.more);
$("live").addEventListener("change", () => ($("live").checked ? start(view) : unplanned()));
suggesting(() => view.name);
binding();
document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented) return; // the suggestions took it
  if (event.key === "Escape") stop();
  const runs = event.key === "Enter" && !event.shiftKey && !event.isComposing && ((event.target === $("query") && !view.isMultiline) || event.ctrlKey || event.metaKey);
  if (runs) { event.preventDefault(); start(view); }
});

/** What the address says; it comes with the page, or is pasted over the one before. */
function open() {
  drop();
  notices.clear();
  $("status").textContent = "";
  $("live").checked = false;
  view.text = $("query").value;
  view.leave?.();
  dress(recall());
  view.blank();
  view.enter?.();
  begin(Boolean(location.hash && ($("query").value || view.isAsked?.())));
}

addEventListener("hashchange", open);
open();
if (key.get() && !view.asked) $("query").focus();
