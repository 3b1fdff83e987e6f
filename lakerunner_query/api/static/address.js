// The address holds query and range (never the key), so that it can be kept and passed on.
import { $ } from "./dom.js";
import { choose } from "./range.js";

export function remember() {
  const kept = { q: $("query").value, range: $("range").value, from: $("from").value, to: $("to").value, order: $("order").value };
  history.replaceState(null, "", `#${new URLSearchParams(Object.entries(kept).filter(([, value]) => value))}`);
}

/** What the address says goes into the controls. */
export function recall() {
  const kept = new URLSearchParams(location.hash.slice(1));
  for (const [name, id] of [["q", "query"], ["from", "from"], ["to", "to"], ["order", "order"]]) if (kept.get(name)) $(id).value = kept.get(name);
  choose(kept.get("range") || "1h");
}
