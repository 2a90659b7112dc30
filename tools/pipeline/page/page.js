"use strict";

const ratio = (snr) => (snr === null ? "" : snr === "exact" ? "exact" : `${snr.toFixed(1)} dB`);

/** A name whose lines break between its parts. */
const inParts = (name) => name.split(/(?<=[._/])/).flatMap((part) => [part, element("wbr")]);

/** A program's steps, with what the views show of them on one image. */
function stepsOf(program, image) {
  return program.steps.map((step, index) => {
    const [instructions, cycles, measured = null] = (step.row !== null && image.rows[step.row]) || [null, null];
    const result = program.tensors[step.writes[0]];
    const dtype = result?.dtype ?? "";
    return {
      ...step,
      index,
      instructions,
      cycles,
      measured,
      ms: (measured ?? cycles) === null ? null : (1e3 * (measured ?? cycles)) / image.clock_hz,
      dtype,
      shape: result ? result.shape.join("×") : "",
      nbytes: sum(step.writes.map((tensor) => program.tensors[tensor].nbytes)),
      short: step.operator.replace(/^.*::/, ""),
      title: step.module || step.operator.replace(/^.*::/, ""),
      color: /^u?int(8|16)$/.test(dtype) ? "var(--int8)" : /^b?float/.test(dtype) ? "var(--float)" : "var(--other)",
    };
  });
}

const METRICS = {
  measured: { label: `cycles, measured on the ${data.proof?.place}`, short: "measured cycles", text: number },
  ms: { label: `milliseconds, ${data.proof ? "measured" : "estimated"}`, short: "ms", text: (value) => value.toFixed(value < 1 ? 3 : 2) },
  cycles: { label: "cycles, estimated", short: "cycles", text: number },
  instructions: { label: "instructions, counted", short: "instructions", text: number },
  macs: { label: "multiply-accumulates", short: "MACs", text: number },
  weights: { label: "bytes of weights", short: "weights", text: number },
};

// The shown image and the marked rows.
const state = { image: data.images[0], metric: data.proof ? "measured" : "ms", sort: "index", descending: false, selected: new Set(), unfolded: new Set() };
let program, steps, tree;

// ---------------------------------------------------------------- selection

/** Makes an element stand for steps: a click on it marks them everywhere. */
function link(made, indices, title) {
  made.dataset.steps = [...indices].join(" ");
  if (title) made.setAttribute("aria-label", title);
  return made;
}

const stepsIn = (made) => made.dataset.steps.split(" ").filter(Boolean).map(Number);

function select(indices, title) {
  state.selected = new Set(indices);
  state.title = title;
  for (const made of document.querySelectorAll("[data-steps]")) {
    const own = stepsIn(made);
    made.classList.toggle("selected", own.length > 0 && own.every((index) => state.selected.has(index)));
  }
  for (const row of byId("table").tBodies[0].rows) row.tabIndex = row.classList.contains("selected") ? 0 : -1;
  showDetails();
}

function showDetails() {
  const chosen = steps.filter((step) => state.selected.has(step.index));
  byId("details").hidden = chosen.length === 0;
  document.body.classList.toggle("marked", chosen.length > 0);
  if (chosen.length === 0) return;
  const one = chosen.length === 1 ? chosen[0] : null;
  const total = (key) => sum(chosen.map((step) => step[key] ?? 0));
  const share = total(state.metric) / Math.max(1e-12, sum(steps.map((step) => step[state.metric] ?? 0)));
  const tensors = (indices) => indices.map((index) => tensorText(program.tensors[index])).join(", ");
  const facts = [
    ["Operator", one ? one.operator : `${chosen.length} operators`],
    ["Class", one?.kind],
    ["Source", [...new Set(chosen.map((step) => step.line).filter(Boolean))].slice(0, 3).join(", ")],
    ["Reads", one && tensors(one.reads)],
    ["Writes", one && tensors(one.writes)],
    ["Scratch", one && one.scratch.length ? bytes(sum(one.scratch.map((index) => program.tensors[index].nbytes))) : ""],
    ["Weights", total("weights") ? bytes(total("weights")) + (one ? parameters(one) : "") : ""],
    ["Instructions", total("instructions") ? number(total("instructions")) : ""],
    ["Measured cycles", total("measured") ? `${number(total("measured"))} (${METRICS.ms.text(total("ms"))} ms)` : ""],
    ["Estimated cycles", total("cycles") ? number(total("cycles")) + (data.proof ? "" : ` (${METRICS.ms.text(total("ms"))} ms)`) : ""],
    ["MACs", total("macs") ? number(total("macs")) : ""],
    ["Cycles per MAC", total("macs") && total("cycles") ? (total("cycles") / total("macs")).toFixed(2) : ""],
    [`Share of ${METRICS[state.metric].short}`, percent(share)],
    ["Int8 against float", one ? ratio(one.snr) : ""],
    ["Made by", [...new Set(chosen.map((step) => step.made_by).filter(Boolean))].join(", ")],
    ["Stayed float", [...new Set(chosen.flatMap((step) => step.reasons))].join("; ")],
  ].filter(([, value]) => value);
  const close = element("button", { type: "button", "aria-label": "Remove the mark" }, "✕");
  close.addEventListener("click", () => select([]));
  byId("details").replaceChildren(
    element("h2", {}, state.title || (one ? `${one.index}  ${one.title}` : `${chosen.length} operators`)),
    close,
    element("dl", {}, ...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)))),
  );
}

const tensorText = (tensor) => `${tensor.dtype} ${tensor.shape.join("×") || "scalar"}`;

function parameters(step) {
  const names = step.constants.map((index) => program.tensors[index].parameter).filter(Boolean);
  return names.length ? ` (${names.join(", ")})` : "";
}

// ---------------------------------------------------------------- modules

/** The module tree: each has a path, its modules and the steps in it. A module in which there is only another one is part of its name. */
function moduleTree() {
  const root = { path: "", name: "", kind: "", modules: new Map(), own: [] };
  for (const step of steps) {
    let module = root;
    const parts = step.module ? step.module.split(".") : [];
    parts.forEach((part, depth) => {
      const path = parts.slice(0, depth + 1).join(".");
      if (!module.modules.has(path)) module.modules.set(path, { path, name: part, kind: "", modules: new Map(), own: [] });
      module = module.modules.get(path);
    });
    module.kind ||= step.kind;
    module.own.push(step);
  }
  const joined = (module) => {
    const children = [...module.modules.values()].map(joined);
    if (module !== root && children.length === 1 && module.own.length === 0) {
      return { ...children[0], name: `${module.name}.${children[0].name}` };
    }
    const all = [...module.own, ...children.flatMap((child) => child.all)].sort((a, b) => a.index - b.index);
    return { ...module, modules: children, all };
  };
  return joined(root);
}

function unfoldUntil(limit) {
  state.unfolded = new Set([""]);
  let queue = [...tree.modules];
  let shown = tree.modules.length + tree.own.length;
  while (queue.length) {
    const module = queue.shift();
    const more = module.modules.length + module.own.length;
    if (module.all.length < 2 || shown + more - 1 > limit) continue;
    shown += more - 1;
    state.unfolded.add(module.path);
    queue.push(...module.modules);
  }
}

const allModules = (module) => [module, ...module.modules.flatMap(allModules)];

// ---------------------------------------------------------------- graph

function drawGraph() {
  const graph = new dagre.graphlib.Graph({ compound: true });
  graph.setGraph({ rankdir: "TB", nodesep: 18, ranksep: 26, marginx: 12, marginy: 12 });
  graph.setDefaultEdgeLabel(() => ({}));
  const shownAs = new Map();
  const clusters = [];
  const add = (id, node, parent) => {
    graph.setNode(id, node);
    if (parent) graph.setParent(id, parent);
  };
  const visit = (module, parent) => {
    for (const step of module.own) {
      const isWhole = module.all.length === 1 && module.path;
      add(`step ${step.index}`, nodeOf(isWhole ? module.name : step.short, isWhole ? `${step.kind} · ${step.short}` : "", [step]), parent);
      shownAs.set(step.index, `step ${step.index}`);
    }
    for (const child of module.modules) {
      const id = `module ${child.path}`;
      if (child.all.length === 1 && child.modules.length === 0) visit(child, parent);
      else if (state.unfolded.has(child.path)) {
        add(id, { module: child }, parent);
        clusters.push(id);
        visit(child, id);
      } else {
        add(id, { ...nodeOf(child.name, `${child.kind || "modules"} · ${child.all.length} operators`, child.all), module: child }, parent);
        for (const step of child.all) shownAs.set(step.index, id);
      }
    }
  };
  visit(tree, "");
  const border = (kind, indices) =>
    indices.forEach((tensor) => {
      const text = tensorText(program.tensors[tensor]);
      add(`${kind} ${tensor}`, { label: kind, what: text, steps: [], width: Math.max(90, 7 * text.length + 20), height: 40 }, "");
    });
  border("input", program.inputs);
  border("output", program.outputs);
  for (const step of steps) {
    for (const [source, tensor] of step.sources) {
      const from = source < 0 ? `input ${tensor}` : shownAs.get(source);
      const to = shownAs.get(step.index);
      if (from !== to) graph.setEdge(from, to);
    }
  }
  for (const [tensor, source] of program.results) graph.setEdge(source < 0 ? `input ${program.inputs[0]}` : shownAs.get(source), `output ${tensor}`);
  dagre.layout(graph);
  const { width, height } = graph.graph();
  // Modules are around what is in them, the innermost first, with room for their titles.
  for (const id of [...clusters].reverse()) {
    const inside = graph.children(id).map((child) => graph.node(child));
    const top = Math.min(...inside.map((node) => node.y - node.height / 2 - (node.module && !node.label ? 18 : 22)));
    const bottom = Math.max(...inside.map((node) => node.y + node.height / 2)) + 9;
    Object.assign(graph.node(id), { y: (top + bottom) / 2, height: bottom - top });
  }
  const svg = d3.create("svg").attr("width", width).attr("height", height).attr("viewBox", `0 0 ${width} ${height}`).attr("role", "group");
  const line = d3.line((point) => point.x, (point) => point.y).curve(d3.curveMonotoneY);
  for (const id of clusters) drawCluster(svg, graph.node(id)).append("rect").attr("rx", 8).attr("width", graph.node(id).width).attr("height", graph.node(id).height);
  svg.append("defs").append("marker").attr("id", "arrow").attr("viewBox", "0 0 8 8").attr("refX", 7).attr("refY", 4)
    .attr("markerWidth", 7).attr("markerHeight", 7).attr("orient", "auto").append("path").attr("d", "M0,0 8,4 0,8z").attr("fill", "var(--other)");
  for (const edge of graph.edges()) svg.append("path").attr("class", "edge").attr("marker-end", "url(#arrow)").attr("d", line(graph.edge(edge).points));
  for (const id of clusters) drawTitle(drawCluster(svg, graph.node(id)), graph.node(id));
  for (const id of graph.nodes()) if (!clusters.includes(id)) drawNode(svg, graph.node(id));
  byId("graph-view").replaceChildren(svg.node());
}

function nodeOf(label, what, own) {
  const last = own.at(-1);
  const below = [what, last.shape && `${last.dtype} ${last.shape}`].filter(Boolean);
  const width = Math.max(7.3 * label.length + 34, ...below.map((text) => 6.3 * text.length + 24), 110);
  return { label, what: below, steps: own, width: Math.min(width, 320), height: 26 + 14 * below.length };
}

/** Text that fits into a width, cut at its end. */
const cut = (text, width, size) => (text.length * size > width ? `${text.slice(0, Math.max(1, Math.floor(width / size) - 1))}…` : text);

/** The last parts of a path that fit into a width; if none does, the beginning of the last one, unless that says too little. */
function lastParts(path, width, size) {
  const parts = path.split(".");
  const ends = parts.map((_, first) => (first ? "…" : "") + parts.slice(first).join("."));
  return ends.find((end) => end.length * size <= width) ?? (width >= 5 * size ? cut(parts.at(-1), width, size) : "");
}

function drawNode(svg, node) {
  const own = node.steps;
  const group = svg.append("g").attr("class", "node").attr("transform", `translate(${node.x - node.width / 2},${node.y - node.height / 2})`);
  const below = [node.what].flat();
  group.append("rect").attr("class", "box").attr("width", node.width).attr("height", node.height).attr("rx", own.length ? 5 : 18);
  group.append("text").attr("class", "name").attr("x", 12).attr("y", 17).text(cut(node.label, node.width - 30, 7.2));
  below.forEach((text, row) => group.append("text").attr("class", "what").attr("x", 12).attr("y", 31 + 14 * row).text(cut(text, node.width - 16, 6.2)));
  if (own.length === 0) return;
  const colors = new Set(own.map((step) => step.color));
  const color = colors.has("var(--float)") && colors.size > 1 ? "var(--float)" : own.at(-1).color;
  group.append("rect").attr("class", "stripe").attr("width", 5).attr("height", node.height).attr("rx", 2).style("--kind", color);
  const share = sum(own.map((step) => step[state.metric] ?? 0)) / Math.max(1e-12, sum(steps.map((step) => step[state.metric] ?? 0)));
  group.append("rect").attr("class", "share").attr("x", 6).attr("y", node.height - 3).attr("height", 3).attr("width", share * (node.width - 6));
  const title = node.module ? node.module.path : own[0].title;
  const whole = `${title}: ${below.join(", ")}, ${percent(share)} of ${METRICS[state.metric].short}`;
  group.append("title").text(whole);
  link(group.node(), own.map((step) => step.index), whole).dataset.title = title;
  group.attr("tabindex", 0).attr("role", "button");
  if (node.module) {
    group.node().dataset.fold = node.module.path;
    group.append("text").attr("class", "fold").attr("x", node.width - 17).attr("y", 18).text("⊞");
  }
}

const drawCluster = (svg, node) =>
  svg.append("g").attr("class", "cluster").attr("transform", `translate(${node.x - node.width / 2},${node.y - node.height / 2})`);

/** A module's title, over the edges that enter it. */
function drawTitle(group, node) {
  const text = `⊟ ${node.module.name}${node.module.kind ? ` (${node.module.kind})` : ""}`;
  const title = group.append("text").attr("x", 8).attr("y", 14).attr("tabindex", 0).attr("role", "button").text(cut(text, node.width - 8, 6));
  title.append("title").text(`Fold ${node.module.path}`);
  title.node().dataset.fold = node.module.path;
}

function toggle(path) {
  if (!state.unfolded.delete(path)) state.unfolded.add(path);
  drawGraph();
  select(state.selected, state.title);
  document.querySelector(`#graph-view [data-fold="${CSS.escape(path)}"]`)?.focus();
}

// ---------------------------------------------------------------- plots in the order of execution

/** A mark's option that makes each of its shapes stand for steps. */
const linked = (indicesOf, titleOf) => ({
  render(index, scales, values, dimensions, context, next) {
    const group = next(index, scales, values, dimensions, context);
    [...group.children].forEach((shape, place) => {
      link(shape, indicesOf(index[place])).setAttribute("role", "img");
      const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
      title.textContent = titleOf(index[place]);
      shape.append(title);
    });
    return group;
  },
});

function plot(id, options) {
  const width = Math.max(280, byId(id).clientWidth);
  const made = Plot.plot({
    width,
    marginLeft: 58,
    marginRight: 12,
    style: { background: "transparent", fontFamily: "inherit", fontSize: "11px" },
    ...options,
    x: { domain: [-1.6, steps.length + 0.6], label: null, ticks: d3.ticks(0, steps.length - 1, Math.min(steps.length, Math.floor(width / 60))).filter(Number.isInteger), tickFormat: String },
  });
  byId(id).replaceChildren(made);
}

function drawPlots() {
  const metric = METRICS[state.metric];
  byId("time-title").replaceChildren(`Each operator, in order: ${metric.label}`);
  plot("time-view", {
    height: 190,
    y: { label: null, grid: true, ticks: 5, tickFormat: state.metric === "ms" ? (value) => String(+value.toFixed(4)) : "~s" },
    marks: [
      Plot.rectY(steps, {
        x1: (step) => step.index - 0.42,
        x2: (step) => step.index + 0.42,
        y: (step) => step[state.metric] ?? 0,
        fill: "color",
        ...linked((i) => [i], (i) => `${i} ${steps[i].title}, ${steps[i].short}: ${metric.text(steps[i][state.metric] ?? 0)} ${metric.short}`),
      }),
      Plot.ruleY([0]),
    ],
  });
  drawArena();
  const compared = steps.filter((step) => step.snr !== null);
  byId("snr").hidden = compared.length === 0;
  if (compared.length === 0) return;
  const highest = Math.max(10, ...compared.map((step) => (step.snr === "exact" ? 0 : step.snr))) * 1.08;
  const height = (step) => (step.snr === "exact" ? highest : step.snr);
  plot("snr-view", {
    height: 170,
    y: { label: null, grid: true, domain: [Math.min(0, ...compared.map(height)), highest] },
    marks: [
      Plot.line(compared, { x: "index", y: height, stroke: "var(--other)", strokeWidth: 1 }),
      Plot.dot(compared, {
        x: "index",
        y: height,
        r: 4.5,
        fill: "color",
        stroke: "var(--card)",
        ...linked((i) => [compared[i].index], (i) => `${compared[i].index} ${compared[i].title}: ${ratio(compared[i].snr)}`),
      }),
    ],
  });
}

const ROLES = { input: "var(--other)", activation: "var(--int8)", scratch: "var(--scratch)", output: "var(--float)" };

function drawArena() {
  const { spans, peak, planned } = program;
  byId("arena-note").replaceChildren(
    `${bytes(planned)} planned; most in use at once ${bytes(peak.nbytes)}, at operator ${peak.step} (${steps[peak.step]?.title ?? ""})`,
  );
  const users = (span) => steps.filter((step) => step.index >= span.first && step.index <= span.last &&
    [...step.reads, ...step.writes, ...step.scratch].includes(span.tensor)).map((step) => step.index);
  const atPeak = (span) => span.first <= peak.step && peak.step <= span.last;
  plot("arena-view", {
    height: 260,
    y: { label: null, grid: true, domain: [0, Math.max(1, planned)], tickFormat: (value) => (planned < 10240 ? bytes(value) : `${number(value / 1024)} KiB`), ticks: d3.range(0, planned, 2 ** Math.ceil(Math.log2(Math.max(1, planned) / 6))) },
    marks: [
      Plot.ruleX([peak.step], { stroke: "var(--mark)", strokeDasharray: "3 3" }),
      Plot.ruleY([peak.nbytes], { stroke: "var(--mark)", strokeDasharray: "3 3" }),
      Plot.rect(spans, {
        x1: (span) => span.first - 0.46,
        x2: (span) => span.last + 0.46,
        y1: "offset",
        y2: (span) => span.offset + span.nbytes,
        fill: (span) => ROLES[span.role],
        fillOpacity: (span) => (atPeak(span) ? 0.85 : 0.45),
        stroke: "var(--card)",
        ...linked((i) => users(spans[i]), (i) => {
          const span = spans[i];
          return `${span.role} ${tensorText(program.tensors[span.tensor])}, ${bytes(span.nbytes)} at ${number(span.offset)}, operators ${Math.max(0, span.first)} to ${Math.min(steps.length - 1, span.last)}${atPeak(span) ? ", at the peak" : ""}`;
        }),
      }),
    ],
  });
  const legend = element("div", { class: "legend" });
  for (const [role, color] of Object.entries(ROLES)) legend.append(legendEntry(color, role));
  legend.append(legendEntry("var(--mark)", "the operator that sets the peak; strong colours: in use at it"));
  byId("arena-view").append(legend);
}

function legendEntry(color, text) {
  return element("span", {}, element("i", { style: `background:${color}` }), text);
}

// ---------------------------------------------------------------- flash

const PARTS = { weights: "var(--int8)", kernels: "var(--scratch)", runtime: "var(--float)", board: "#cc79a7", application: "#cc79a7", libc: "var(--float)" };

/** The image's flash as a tree: its parts, and in the weights the modules that read them. */
function flashTree() {
  const known = new Map();
  const weightsOf = (module) => {
    const children = module.modules.map(weightsOf).filter((child) => sum(child.steps.map((index) => steps[index].weights)));
    for (const step of module.own.filter((step) => step.weights)) {
      children.push({ name: module.path || step.short, value: step.weights, steps: [step.index], part: "weights" });
    }
    return { name: module.name, children, steps: module.all.map((step) => step.index), part: "weights" };
  };
  for (const [part, size] of Object.entries(state.image.memories.flash.parts)) {
    const tile = { name: part, part, value: size, steps: [] };
    const found = sum(steps.map((step) => step.weights));
    if (part === "weights" && found) {
      const rest = size - found;
      tile.children = [...weightsOf(tree).children, ...(rest > 0 ? [{ name: "other constants", value: rest, steps: [], part }] : [])];
      delete tile.value;
    }
    known.set(part, tile);
  }
  return { name: "flash", children: [...known.values()], steps: [] };
}

function drawFlash() {
  const { used, limit } = state.image.memories.flash;
  byId("flash-note").replaceChildren(`${number(used)} bytes of ${bytes(limit)}; the area is the share. Weights are by module.`);
  const width = Math.max(280, byId("flash-view").clientWidth);
  const height = 320;
  const root = d3.hierarchy(flashTree()).sum((tile) => tile.value ?? 0).sort((a, b) => b.value - a.value);
  d3.treemap().size([width, height]).paddingInner(1).paddingTop((node) => (node.depth === 1 && node.children ? 16 : 0)).round(true)(root);
  const svg = d3.create("svg").attr("width", width).attr("height", height).attr("viewBox", `0 0 ${width} ${height}`);
  for (const node of root.descendants().filter((node) => node.depth === 1 || !node.children)) {
    const [w, h] = [node.x1 - node.x0, node.y1 - node.y0];
    const tile = svg.append("g").attr("class", "tile").attr("transform", `translate(${node.x0},${node.y0})`);
    const color = PARTS[node.data.part] ?? "var(--other)";
    tile.append("rect").attr("width", w).attr("height", h).style("fill", `color-mix(in srgb, ${color} ${node.children ? 12 : 38}%, var(--card))`);
    const label = node.children ? `weights by module, ${bytes(node.value)}` : node.data.name;
    if (w > 28 && h > 13) tile.append("text").attr("x", 4).attr("y", 12).style("font-size", "11px").text(node.children ? cut(label, w - 6, 7) : lastParts(label, w - 6, 6.8));
    if (!node.children && w > 44 && h > 28) tile.append("text").attr("x", 4).attr("y", 25).style("font-size", "10px").style("fill", "var(--soft)").text(cut(bytes(node.value), w - 6, 6.2));
    tile.append("title").text(`${node.data.name}: ${number(node.value)} bytes, ${percent(node.value / Math.max(1, used))}`);
    if (node.data.steps.length && !node.children) link(tile.node(), node.data.steps);
  }
  byId("flash-view").replaceChildren(svg.node());
}

// ---------------------------------------------------------------- tables

const COLUMNS = [
  ["index", "#", (step) => String(step.index)],
  ["title", "Module", (step) => step.title],
  ["short", "Operator", (step) => step.short],
  ["dtype", "Result", (step) => `${step.dtype} ${step.shape}`],
  ["ms", "ms", (step) => METRICS.ms.text(step.ms)],
  ["measured", "Measured", (step) => number(step.measured)],
  ["cycles", data.proof ? "Estimated" : "Cycles", (step) => number(step.cycles)],
  ["instructions", "Instructions", (step) => number(step.instructions)],
  ["macs", "MACs", (step) => (step.macs ? number(step.macs) : "")],
  ["weights", "Weights", (step) => (step.weights ? number(step.weights) : "")],
  ["snr", "SNR", (step) => ratio(step.snr)],
  ["line", "Source", (step) => step.line],
];
const NUMBERS = ["index", "ms", "measured", "cycles", "instructions", "macs", "weights", "snr"];

/** A heading that sorts; the direction is that of the rows, if they are sorted by it. */
function heading(label, isNumber, direction, sort) {
  const button = element("button", { type: "button" }, ...[label].flat(), direction ? (direction === "descending" ? " ▾" : " ▴") : "");
  button.addEventListener("click", sort);
  return element("th", { scope: "col", "aria-sort": direction || "none", class: isNumber ? "number" : "" }, button);
}

function drawTable() {
  const columns = COLUMNS.filter(([key]) => steps.some((step) => step[key] !== null && step[key] !== ""));
  const value = (step) => (step[state.sort] === "exact" ? Infinity : step[state.sort] ?? -Infinity);
  const rows = [...steps].sort((a, b) => (d3.ascending(value(a), value(b)) || a.index - b.index) * (state.descending ? -1 : 1));
  const head = columns.map(([key, label]) => {
    const made = heading(label, NUMBERS.includes(key), state.sort === key && (state.descending ? "descending" : "ascending"), () => {
      state.descending = state.sort === key ? !state.descending : NUMBERS.includes(key) && key !== "index";
      state.sort = key;
      drawTable();
      byId("table").querySelector(`th[data-key="${key}"] button`).focus();
    });
    made.dataset.key = key;
    return made;
  });
  const largest = Object.fromEntries(columns.map(([key]) => [key, Math.max(...steps.map((step) => (typeof step[key] === "number" ? step[key] : 0)))]));
  const body = rows.map((step) => {
    const cells = columns.map(([key, , text]) => {
      const isNumber = NUMBERS.includes(key);
      const cell = element("td", { "data-key": key, class: isNumber ? "number" : key === "title" ? "name" : "" }, ...(step[key] === null ? [] : isNumber ? [text(step)] : inParts(text(step))));
      if (key === "title" && step.short !== step.title) cell.dataset.operator = step.short;
      if (["ms", "measured", "cycles", "instructions", "macs", "weights"].includes(key) && step[key]) {
        cell.append(element("i", { class: "share", style: `width:${(100 * step[key]) / largest[key]}%` }));
      }
      return cell;
    });
    return link(element("tr", { tabindex: "-1" }, ...cells), [step.index]);
  });
  byId("table").replaceChildren(element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
  search();
  select(state.selected, state.title);
  if (!state.selected.size && body[0]) body[0].tabIndex = 0;
}

function search() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const row of byId("table").tBodies[0].rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    found += !row.hidden;
  }
  byId("layers-note").replaceChildren(words.length ? `${found} of ${steps.length} operators` : "A heading sorts; arrow keys move the mark, Esc removes it");
}

const timeOf = (image) => {
  const cycles = image.rows.map(([, cycles]) => cycles);
  return cycles.length && cycles.every((count) => count !== null) ? (1e3 * sum(cycles)) / image.clock_hz : null;
};

function drawImages() {
  byId("overview").hidden = data.images.length < 2;
  const used = (name) => [(image) => image.memories[name].used,
    (value, image) => [bytes(value), element("span", {}, ` of ${bytes(image.memories[name].limit)}`)]];
  // A heading, what a row has there, and how it is shown.
  const columns = [
    ["Model", (image) => data.programs[image.program].name, inParts],
    ["Board", (image) => image.board, inParts],
    ["Core", (image) => image.core, (value) => [value]],
    ["MHz", (image) => image.clock_hz / 1e6, (value) => [String(value)]],
    ["Flash", ...used("flash")],
    ["RAM", ...used("RAM")],
    ["Instructions", (image) => (image.rows.length ? sum(image.rows.map(([count]) => count)) : null), (value) => [number(value)]],
    [["ms", element("span", {}, ", estimated")], timeOf, (value) => [value.toFixed(2)]],
    ["Accuracy", (image) => image.accuracy, (value) => [`${(100 * value).toFixed(1)} %`]],
  ].filter(([, value]) => data.images.some((image) => value(image) !== null));
  const [, sortedBy] = columns[state.imageSort] ?? [null, (image) => data.images.indexOf(image)];
  // Unknown values come last, either way.
  const order = (a, b) => (a === null) - (b === null) || d3.ascending(a, b) * (state.imageDescending ? -1 : 1);
  const rows = [...data.images].sort((a, b) => order(sortedBy(a), sortedBy(b))).map((image) =>
    element("tr", { "data-image": data.images.indexOf(image), tabindex: "0", "aria-selected": String(image === state.image) },
      ...columns.map(([, value, show], place) =>
        element("td", { class: place > 2 ? "number" : place < 2 ? "name" : "" }, ...(value(image) === null ? [] : show(value(image), image))))));
  const head = columns.map(([name], place) =>
    heading(name, place > 2, state.imageSort === place && (state.imageDescending ? "descending" : "ascending"), () => {
      state.imageDescending = state.imageSort === place ? !state.imageDescending : name === "Accuracy";
      state.imageSort = place;
      drawImages();
      byId("images").tHead.rows[0].cells[place].firstChild.focus();
    }));
  byId("images").replaceChildren(element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
  const untimed = d3.groups(data.images.filter((image) => image.untimed), (image) => image.untimed);
  const reasons = untimed.map(([why, images]) => element("p", { class: "note" }, `No ms on ${[...new Set(images.map((image) => image.board))].join(", ")}: ${why}.`));
  byId("images-note").replaceChildren(...(reasons.length < 3 ? reasons : [element("details", {}, element("summary", { class: "note" }, "Why some have no ms"), ...reasons)]));
}


/** Every image as a dot, a colour per board or core and a shape per model; a ring marks those that no other one beats in both. */
function drawChoices() {
  const dots = data.images.map((image, index) => ({
    index,
    model: data.programs[image.program].name,
    board: image.board,
    core: image.core,
    flash: image.memories.flash.used / 1024,
    RAM: image.memories.RAM.used / 1024,
    ms: timeOf(image),
    accuracy: image.accuracy,
  }));
  const pairs = [["ms", "accuracy"], ["ms", "flash"], ["flash", "RAM"]];
  const labels = { ms: "ms, estimated", accuracy: "accuracy", flash: "KiB of flash", RAM: "KiB of RAM" };
  const text = (dot, key) => (key === "accuracy" ? percent(dot[key]) : `${number(+dot[key].toFixed(1))} ${labels[key]}`);
  const sign = (key) => (key === "accuracy" ? -1 : 1);
  const knownOf = ([x, y]) => dots.filter((dot) => dot[x] !== null && dot[y] !== null);
  const drawn = pairs.filter((pair) => knownOf(pair).length > 2);
  const wide = byId("overview").clientWidth - 32;
  const width = Math.min(640, wide / Math.max(1, Math.min(drawn.length, Math.floor(wide / 336))) - 16);
  // More boards than colours are told apart by their core, and by what a dot says of itself.
  const hue = new Set(dots.map((dot) => dot.board)).size > COLORS.length ? "core" : "board";
  const isWide = (known, key) => key === "ms" && d3.max(known, (dot) => dot.ms) > 20 * d3.min(known, (dot) => dot.ms);
  const color = { domain: [...new Set(dots.map((dot) => dot[hue]))], range: COLORS };
  const symbol = { domain: [...new Set(dots.map((dot) => dot.model))] };
  const legends = drawn.length ? [element("div", { class: "side" }, Plot.legend({ color }), Plot.legend({ symbol, fill: "currentColor" }),
    element("span", { class: "note" }, "A ring: no other one is better in both."))] : [];
  const plots = drawn.map(([x, y]) => {
    const known = knownOf([x, y]);
    const beats = (a, b) => [x, y].every((key) => sign(key) * a[key] <= sign(key) * b[key]) && [x, y].some((key) => a[key] !== b[key]);
    const front = known.filter((dot) => !known.some((other) => beats(other, dot)));
    return Plot.plot({
      width: Math.max(280, width),
      height: 260,
      marginLeft: 62,
      marginRight: 30,
      marginTop: 28,
      style: { background: "transparent", fontFamily: "inherit", fontSize: "11px" },
      x: { label: labels[x], grid: true, tickFormat: x === "ms" ? String : "~s", ticks: 5, nice: true, ...(isWide(known, x) ? { type: "log" } : { zero: true }) },
      y: { label: labels[y], grid: true, tickFormat: y === "accuracy" ? "~%" : "~s", nice: true, zero: y !== "accuracy" },
      color,
      symbol,
      marks: [
        Plot.dot(front, { x, y, r: 10, stroke: "var(--mark)" }),
        Plot.dot(known, {
          x, y, r: 5, fill: hue, symbol: "model", title: (dot) => `${dot.model} on ${dot.board}: ${text(dot, x)}, ${text(dot, y)}`,
          render(index, scales, values, dimensions, context, next) {
            const group = next(index, scales, values, dimensions, context);
            [...group.children].forEach((shape, place) => (shape.dataset.image = known[index[place]].index));
            return group;
          },
        }),
      ],
    });
  });
  byId("choices").replaceChildren(...legends, ...plots);
}

function drawCards() {
  const cards = memoryCards(state.image.memories);
  const ms = timeOf(state.image);
  if (ms !== null) {
    const cycles = sum(state.image.rows.map(([, count]) => count));
    cards.push(card("An inference, estimated", `${ms.toFixed(2)} ms`, `${number(cycles)} cycles at ${state.image.clock_hz / 1e6} MHz`));
  }
  if (program.npu) {
    const cycles = sum(program.npu.layers.map((layer) => layer.cycles));
    cards.push(card("On the NPU, estimated", `${((1e3 * cycles) / program.npu.clock_hz).toFixed(2)} ms`, `${number(cycles)} cycles at ${program.npu.clock_hz / 1e6} MHz`));
  }
  // A cycle of the simulator's counter is an instruction, which makes no time.
  if (data.proof?.place === "board") {
    const { inference, unit, clock_hz: hertz } = data.proof;
    cards.push(card("An inference on the board", `${((1e3 * inference) / hertz).toFixed(2)} ms`, `${number(inference)} ${unit} at ${hertz / 1e6} MHz`));
  }
  const counted = sum(state.image.rows.map(([count]) => count ?? 0));
  if (counted) cards.push(card("Instructions", number(counted), "per inference, counted"));
  const macs = sum([...steps, ...(program.npu?.layers ?? [])].map((each) => each.macs));
  cards.push(card("Multiply-accumulates", number(macs), `${steps.length} operators${program.npu ? ", and the NPU's layers" : ""}`));
  const worst = d3.min(program.layers.filter((layer) => typeof layer.snr === "number"), (layer) => layer.snr);
  if (program.accuracy) {
    const { int8, float32, samples } = program.accuracy;
    const exact = (share) => `${(100 * share).toFixed(1)} %`;
    cards.push(card("Accuracy in int8", exact(int8), `${exact(float32)} in float32, ${samples} samples`));
  } else if (worst !== undefined) cards.push(card("Lowest signal-to-noise", ratio(worst), "of a layer, int8 against float"));
  byId("cards").replaceChildren(...cards);
}

function drawProof() {
  const proof = data.proof;
  byId("proof").hidden = !proof;
  if (!proof) return;
  const failed = proof.items.filter(({ passed }) => !passed).length;
  byId("proof-title").replaceChildren(
    proof.place === "board" ? "Proof on the board: " : "Proof on the simulator, no board took part: ",
    element("span", { class: failed ? "failed" : "" }, failed ? `${failed} of ${proof.items.length} checks failed` : `all ${proof.items.length} checks passed`),
  );
  const facts = [
    ["Chip", proof.chip],
    ["Revision", proof.revision],
    ["Date", proof.date],
    ["Stack", `${bytes(proof.stack_used)} of ${bytes(proof.stack_size)}`],
    ["Image", `SHA-256 ${proof.image}`],
  ].filter(([, value]) => value);
  const list = (entries) => entries.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)));
  byId("proof-facts").replaceChildren(...list(facts));
  byId("proof-versions").replaceChildren(...list(Object.entries(proof.versions)));
  byId("proof-items").replaceChildren(element("tbody", {}, ...proof.items.map(({ name, passed, found }) =>
    element("tr", {}, element("td", { class: passed ? "" : "failed" }, passed ? "pass" : "FAIL"), element("td", {}, name), element("td", { class: "name" }, found)))));
  const programs = d3.groups(proof.kinds, ({ place }) => place.split(": ", 1)[0]);
  byId("proof-kinds").hidden = !programs.length;
  byId("proof-kinds").replaceChildren(
    element("summary", {}, `A layer of each kind: ${proof.unit}, measured`),
    element("div", { class: "side" }, ...programs.map(([program, layers]) => kindsTable(program, layers))),
  );
}

/** The layers of one program of those with a layer of each kind, whose places begin with its name. */
function kindsTable(program, layers) {
  const most = Math.max(...layers.map(({ measured }) => measured));
  const right = (name, text, ...more) => element(name, { class: "number" }, text, ...more);
  return element("figure", {}, element("h3", {}, `${program} `, element("small", {}, `${number(sum(layers.map(({ measured }) => measured)))} ${data.proof.unit}`)), element("table", {},
    element("thead", {}, element("tr", {}, element("th", {}, "Module"), element("th", {}, "Operator"), right("th", "MACs"), right("th", "Measured"), right("th", "Per MAC"))),
    element("tbody", {}, ...layers.map(({ operator, place, macs, measured }) => element("tr", {},
      element("td", { class: "name" }, place.slice(program.length + 2).replace(/\S*\//, "")),
      element("td", {}, operator.replace(/^.*::|\.\w+$/g, "")),
      right("td", macs ? number(macs) : ""),
      right("td", number(measured), element("i", { class: "share", style: `width:${(100 * measured) / most}%` })),
      right("td", macs ? (measured / macs).toFixed(2) : ""))))));
}

/** How often each class was taken for each other one, in int8 and in float32. */
function confusionPlots({ classes, int8_confusion: int8, float32_confusion: float32 }) {
  const longest = Math.min(18, Math.max(...classes.map((name) => name.length)));
  const isLong = longest > 3;
  const [marginLeft, marginBottom] = isLong ? [16 + 6.8 * longest, 46 + 4.4 * longest] : [40, 40];
  const tickFormat = (name) => cut(name, 18, 1);
  const plotOf = (title, counts) => {
    const cells = counts.flatMap((row, label) => row.map((count, found) => ({ label: classes[label], found: classes[found], count, shade: 0.2 + (0.35 * count) / Math.max(1, sum(row)) })));
    const side = Math.min(620, byId("quantization").clientWidth - 32, marginLeft + 40 + 34 * classes.length);
    const made = Plot.plot({
      width: side, height: side - marginLeft + marginBottom, marginLeft, marginBottom, padding: 0.04,
      style: { background: "transparent", fontFamily: "inherit", fontSize: "11px" },
      x: { domain: classes, label: "taken for", labelOffset: marginBottom - 4, tickFormat, tickRotate: isLong ? -40 : 0 },
      y: { domain: classes, label: "is", labelAnchor: "top", labelArrow: "none", tickFormat },
      marks: [
        Plot.cell(cells.filter((cell) => cell.count), { x: "found", y: "label", fill: (cell) => (cell.label === cell.found ? "var(--int8)" : "var(--mark)"), fillOpacity: "shade", title: (cell) => `${cell.count} of ${cell.label} taken for ${cell.found}` }),
        Plot.text(cells.filter((cell) => cell.count), { x: "found", y: "label", text: "count", fill: "var(--fg)" }),
      ],
    });
    return element("figure", {}, element("figcaption", {}, title), made);
  };
  return element("div", { class: "side" }, plotOf("int8: classes of the evaluation set", int8), plotOf("float32", float32));
}

/** What the NPU's compiler estimates of each layer, and what stays on the core. */
function drawNpu() {
  const npu = program.npu;
  byId("npu").hidden = !npu;
  if (!npu) return;
  const total = sum(npu.layers.map((layer) => layer.cycles));
  const ms = (cycles) => ((1e3 * cycles) / npu.clock_hz).toFixed(3);
  const head = ["Layer", "Operator", "ms", "Cycles", "Multiply-accumulates", "SRAM"];
  const rows = npu.layers.map((layer) => {
    const texts = [layer.name, layer.operator, ms(layer.cycles), number(layer.cycles), layer.macs ? number(layer.macs) : "", bytes(layer.sram_bytes)];
    const row = element("tr", {}, ...texts.map((text, place) => element("td", { class: place > 1 ? "number" : "name" }, text)));
    row.cells[2].append(element("span", { class: "share", style: `width:${total ? (100 * layer.cycles) / total : 0}%` }));
    return row;
  });
  byId("npu-view").replaceChildren(
    element("p", { class: "note" }, `${ms(total)} ms, ${number(total)} cycles of ${npu.accelerator} at ${npu.clock_hz / 1e6} MHz, as its compiler, Vela, estimates them.`),
    element("table", {},
      element("thead", {}, element("tr", {}, ...head.map((text, place) => element("th", { scope: "col", class: place > 1 ? "number" : "" }, text)))),
      element("tbody", {}, ...rows)),
    ...npu.core.map((text) => element("p", { class: "note" }, `On the core: ${text}`)),
  );
}

function drawQuantization() {
  byId("quantization").hidden = !program.is_quantized;
  if (!program.is_quantized) return;
  const layers = program.layers.filter((layer) => layer.scheme !== "view");
  const rows = layers.map((layer) => {
    const own = steps.filter((step) => step.module === layer.module && step.line === layer.line).map((step) => step.index);
    const texts = [layer.module || layer.line, layer.operator, layer.scheme, layer.weight, ratio(layer.snr), layer.reason];
    return link(element("tr", {}, ...texts.map((text, place) => element("td", { class: [0, 5].includes(place) ? "name" : place === 4 ? "number" : "" }, text))), own);
  });
  const head = ["Layer", "Operator of the model", "Computed in", "Weights", "SNR", "Why it stayed float"];
  const floats = layers.filter((layer) => layer.scheme === "float32");
  const table = element("table", {},
    element("thead", {}, element("tr", {}, ...head.map((text, place) => element("th", { scope: "col", class: place === 4 ? "number" : "" }, text)))), element("tbody", {}, ...rows));
  byId("quantization-view").replaceChildren(
    ...(program.accuracy?.classes.length ? [confusionPlots(program.accuracy)] : []),
    ...program.notes.map((note) => {
      // A list of many layers is folded.
      const text = `${note[0].toUpperCase()}${note.slice(1)}.`;
      const [what, layers] = text.length > 240 ? text.split(/: (.*)/s) : [text];
      return layers ? element("details", {}, element("summary", {}, what), element("p", {}, layers)) : element("p", {}, what);
    }),
    element("p", { class: "note" }, floats.length ? `${floats.length} of ${layers.length} layers stayed in float32.` : `None of ${layers.length} layers stayed in float32.`),
    element("details", {}, element("summary", {}, "Every layer"), element("div", { class: "scroll" }, table)),
  );
}

// ---------------------------------------------------------------- the page

function show(image) {
  state.image = image;
  program = data.programs[image.program];
  steps = stepsOf(program, image);
  tree = moduleTree();
  state.selected = new Set();
  const metrics = Object.keys(METRICS).filter((key) => steps.some((step) => step[key]));
  if (!metrics.includes(state.metric)) state.metric = metrics[0] ?? "macs";
  byId("metric").replaceChildren(...metrics.map((key) => element("option", { value: key }, METRICS[key].short)));
  byId("metric").value = state.metric;
  // Nothing is known of the core's part of a program for an NPU.
  for (const id of ["metric-choice", "time-title", "time-view"]) byId(id).hidden = metrics.length === 0;
  byId("subtitle").replaceChildren(`${program.name} on ${image.description}`);
  const estimate = "Cycles are estimated for memory without wait states, no caches and no interrupts.";
  byId("time-note").replaceChildren(
    data.proof ? `Cycles are what the ${data.proof.place}'s counter measured; instructions are counted on the simulator.`
      : image.untimed ? `No times: ${image.untimed}.`
        : image.measured_on === image.board ? estimate : `${estimate} Counted on ${image.measured_on}, which has the same core.`,
  );
  unfoldUntil(26);
  drawImages();
  drawChoices();
  drawCards();
  redraw();
  drawTable();
  drawNpu();
  drawQuantization();
  drawProof();
  select([]);
}

function redraw() {
  drawGraph();
  drawPlots();
  drawFlash();
}

const isText = (target) => ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName);

document.addEventListener("click", (event) => {
  const chosen = event.target.closest("[data-image]");
  if (chosen) return show(data.images[Number(chosen.dataset.image)]);
  const folds = event.target.closest(".fold, .cluster text");
  if (folds) return toggle(folds.closest("[data-fold]").dataset.fold);
  const made = event.target.closest("[data-steps]");
  if (made) select(stepsIn(made), made.dataset.title);
});

document.addEventListener("dblclick", (event) => {
  const node = event.target.closest(".node[data-fold]");
  if (node) toggle(node.dataset.fold);
});

document.addEventListener("keydown", (event) => {
  const target = event.target;
  if (event.key === "Escape") {
    select([]);
  } else if (event.key === "Enter" && target === byId("search")) {
    const found = [...byId("table").tBodies[0].rows].filter((row) => !row.hidden);
    if (target.value) select(found.flatMap(stepsIn), `${found.length} operators with ${target.value}`);
  } else if (event.key === "/" && !isText(target)) {
    event.preventDefault();
    byId("search").focus();
  } else if ((event.key === "Enter" || event.key === " ") && target.dataset?.image) {
    event.preventDefault();
    show(data.images[Number(target.dataset.image)]);
    document.querySelector(`[data-image="${data.images.indexOf(state.image)}"]`).focus();
  } else if ((event.key === "Enter" || event.key === " ") && (target.dataset?.steps || target.dataset?.fold)) {
    event.preventDefault();
    if (target.dataset.fold !== undefined && (event.key === "Enter" || !target.dataset.steps)) toggle(target.dataset.fold);
    else select(stepsIn(target), target.dataset.title);
  } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && target.closest("#table tbody")) {
    event.preventDefault();
    const rows = [...byId("table").tBodies[0].rows].filter((row) => !row.hidden);
    const next = rows[rows.indexOf(target.closest("tr")) + (event.key === "ArrowDown" ? 1 : -1)];
    if (!next) return;
    select(stepsIn(next));
    next.focus();
  }
});

byId("search").addEventListener("input", search);
byId("metric").addEventListener("change", (event) => {
  state.metric = event.target.value;
  redraw();
  select(state.selected, state.title);
});
byId("unfold").addEventListener("click", () => {
  state.unfolded = new Set(allModules(tree).map((module) => module.path));
  drawGraph();
  select(state.selected, state.title);
});
byId("fold").addEventListener("click", () => {
  state.unfolded = new Set([""]);
  drawGraph();
  select(state.selected, state.title);
});
for (const legend of document.querySelectorAll("#graph > .legend")) {
  legend.append(
    legendEntry("var(--int8)", "int8 or int16"), legendEntry("var(--float)", "float"), legendEntry("var(--other)", "other"),
    element("span", {}, "The bar below a box is its share; ⊞ unfolds."),
  );
}
let resized;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => {
    redraw();
    select(state.selected, state.title);
  }, 150);
});
show(data.images[0]);
