// Where the nodes of a graph stand: callers left of what they call, few crossings, the same every time.
export const WIDTH = 190, HEIGHT = 58, GAP_X = 110, GAP_Y = 22, MARGIN = 24;
const SWEEPS = 8;

/** Names and edges `{ from, to }` → `{ width, height, places: Map name → { x, y, layer } }`, corners of the boxes. */
export function layout(names, edges) {
  const all = [...new Set(names)].sort();
  const ahead = forward(all, edges.filter(({ from, to }) => from !== to));
  const layers = ordered(all, ahead, depths(all, ahead));
  const tallest = Math.max(1, ...layers.map((layer) => layer.length));
  const height = 2 * MARGIN + tallest * (HEIGHT + GAP_Y) - GAP_Y;
  const places = new Map();
  layers.forEach((layer, at) => layer.forEach((name, row) => {
    const rest = (tallest - layer.length) / 2;
    places.set(name, { x: MARGIN + at * (WIDTH + GAP_X), y: MARGIN + (row + rest) * (HEIGHT + GAP_Y), layer: at });
  }));
  return { width: 2 * MARGIN + layers.length * (WIDTH + GAP_X) - GAP_X, height, places };
}

/** Edges without those that close a circle: they are met again on the way down from callers that nobody calls. */
function forward(names, edges) {
  const below = new Map(names.map((name) => [name, []]));
  for (const { from, to } of edges) if (!below.get(from).includes(to)) below.get(from).push(to);
  for (const list of below.values()) list.sort();
  const called = new Set(edges.map(({ to }) => to));
  const kept = [], done = new Set(), open = new Set();
  const walk = (name) => {
    open.add(name);
    for (const next of below.get(name)) {
      if (open.has(next)) continue;
      kept.push({ from: name, to: next });
      if (!done.has(next)) walk(next);
    }
    open.delete(name);
    done.add(name);
  };
  for (const name of [...names.filter((one) => !called.has(one)), ...names]) if (!done.has(name)) walk(name);
  return kept;
}

/** The longest way from a node that nobody calls. */
function depths(names, edges) {
  const depth = new Map(names.map((name) => [name, 0]));
  for (let changed = true; changed;) {
    changed = false;
    for (const { from, to } of edges) {
      if (depth.get(to) <= depth.get(from)) { depth.set(to, depth.get(from) + 1); changed = true; }
    }
  }
  return depth;
}

/** Layers in which every node stands near the middle of its neighbours in the layer before, then behind. */
function ordered(names, edges, depth) {
  const layers = Array.from({ length: names.length ? Math.max(...depth.values()) + 1 : 0 }, (_, at) => names.filter((name) => depth.get(name) === at));
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const row = new Map(layers.flatMap((layer) => layer.map((name, at) => [name, at - layer.length / 2])));
    const near = (name) => edges.flatMap(({ from, to }) => (sweep % 2 ? (from === name ? [to] : []) : (to === name ? [from] : [])));
    for (const layer of layers) {
      const wish = new Map(layer.map((name) => [name, middle(near(name).map((one) => row.get(one)), row.get(name))]));
      layer.sort((a, b) => wish.get(a) - wish.get(b) || (a < b ? -1 : 1));
    }
  }
  return layers;
}

const middle = (rows, own) => (rows.length ? rows.reduce((sum, one) => sum + one, 0) / rows.length : own);

const LANE = 11;

/** The corners of the arrow's head at the end of an edge; several between two boxes have lanes. */
export function head(from, to, lane = 0) {
  const [x, y] = [to.x, to.y + HEIGHT / 2 + LANE * lane], [u, v] = [to.x + WIDTH * 0.3, to.y + HEIGHT];
  return to.layer > from.layer ? `${x},${y} ${x - 9},${y - 5} ${x - 9},${y + 5}` : `${u},${v} ${u - 5},${v + 9} ${u + 5},${v + 9}`;
}

/** The path of an edge between two boxes; one that goes back leaves below and comes in below. */
export function path(from, to, lane = 0) {
  const [x1, y1] = [from.x + WIDTH, from.y + HEIGHT / 2 + LANE * lane], [x2, y2] = [to.x, to.y + HEIGHT / 2 + LANE * lane];
  if (to.layer > from.layer) {
    const bend = Math.max(40, (x2 - x1) / 2);
    return `M ${x1} ${y1} C ${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
  }
  const low = Math.max(from.y, to.y) + HEIGHT + GAP_Y + LANE * lane;
  return `M ${from.x + WIDTH * 0.7} ${from.y + HEIGHT} C ${from.x + WIDTH * 0.7} ${low + 14} ${to.x + WIDTH * 0.3} ${low + 14} ${to.x + WIDTH * 0.3} ${to.y + HEIGHT}`;
}
