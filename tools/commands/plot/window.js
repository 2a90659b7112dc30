"use strict";

// The last message of tools/commands/plot/plot.py.
let shown = null;

/** A plot as wide as a view. */
const plot = (view, height, options) =>
  byId(view).append(Plot.plot({
    width: Math.max(280, byId(view).clientWidth), height, marginLeft: 52, marginTop: 24,
    style: { background: "transparent", fontFamily: "inherit", fontSize: "11px" }, ...options,
  }));

/** A picture of a channel's values: low ones in one colour, high ones in another. */
function picture(values, width) {
  const canvas = element("canvas", { width, height: values.length / width });
  const context = canvas.getContext("2d");
  const color = d3.scaleSequential(d3.extent(values), d3.interpolateCividis);
  values.forEach((value, index) => {
    context.fillStyle = color(value);
    context.fillRect(index % width, Math.floor(index / width), 1, 1);
  });
  return canvas;
}

function drawInput({ dtype, shape, values }) {
  byId("inputs").append(element("p", { class: "note" }, `${dtype} ${shape.join("×")}`));
  const [height, width] = shape.slice(-2);
  if (values.length === 1) {
    byId("inputs").append(element("div", { class: "card" }, element("b", {}, `${values[0]}`)));
  } else if (shape.length > 1 && Math.min(height, width) > 6) {
    const channels = d3.range(0, values.length, height * width).map((start) => picture(values.slice(start, start + height * width), width));
    byId("inputs").append(element("div", { class: "channels" }, ...channels));
  } else {
    // A signal: a line for each channel, along the longer of the last two dimensions.
    const isAcross = height > width;
    const along = (index) => (isAcross ? [Math.floor(index / width) % height, index % width] : [index % width, Math.floor(index / width)]);
    const points = values.map((value, index) => ({ value, at: along(index)[0], channel: along(index)[1] }));
    plot("inputs", 230, {
      color: { type: "categorical", domain: [...new Set(points.map((point) => point.channel))], range: COLORS },
      x: { label: null }, y: { label: null, grid: true, nice: true },
      marks: [Plot.line(points, { x: "at", y: "value", stroke: "channel", marker: values.length < 50 })],
    });
  }
}

function drawOutput({ output, expected }) {
  const largest = d3.maxIndex(output);
  byId("legend").textContent = `${output.length === 1 ? "" : `largest: ${largest}`}${expected ? " · dashes: expected" : ""}`;
  const points = output.map((value, index) => ({ value, index, expected: expected?.[index] }));
  const isLong = output.length > 64;
  const mark = isLong
    ? Plot.line(points, { x: "index", y: "value", stroke: "var(--int8)" })
    : Plot.barY(points, { x: "index", y: "value", fill: (point) => (point.index === largest ? "var(--int8)" : "var(--other)"), title: (point) => `${point.index}: ${point.value}` });
  plot("output", 250, {
    x: isLong ? { label: null } : { label: null, type: "band", padding: 0.2 },
    y: { label: null, grid: true, nice: true },
    marks: [mark, Plot.ruleY([0]), expected && !isLong ? Plot.tickY(points, { x: "index", y: "expected", stroke: "var(--mark)", strokeWidth: 3, strokeDasharray: "5 3" }) : null],
  });
}

function drawCurves({ label, x, ms, lines, reference }) {
  const curves = [...reference, ...lines];
  const points = curves.flatMap(([name, values]) => x.map((at, index) => ({ name, at, value: values[index], ms: ms[index] })));
  const color = { domain: curves.map(([name]) => name), range: [...reference.map(() => "var(--soft)"), ...COLORS, "var(--fg)", "#7b3294"] };
  byId("lines").append(Plot.legend({ color }));
  for (const [view, height, y, stroke] of [["lines", 300, "value", "name"], ["times", 120, "ms", "var(--scratch)"]]) {
    const title = (point) => `${label} ${point.at}, ${point.name}: ${point.value}\n${point.ms.toFixed(3)} ms`;
    plot(view, height, {
      color,
      x: { label, ticks: Math.min(10, x.length - 1) },
      y: { label: null, grid: true, nice: true, ticks: height / 40, zero: y === "ms" },
      marks: [Plot.line(points, { x: "at", y, stroke, z: "name" }), Plot.tip(points, Plot.pointer({ x: "at", y, title }))],
    });
  }
}

function draw() {
  const { name, where, memories, arena, ms, total, x, label } = shown;
  byId("subtitle").textContent = `${where} · ${ms.length} of ${total} inferences`;
  document.querySelector("h1").textContent = name;
  for (const view of ["inputs", "output", "lines", "times"]) byId(view).replaceChildren();
  byId("cards").replaceChildren(
    card("Last inference", `${ms.at(-1).toFixed(3)} ms`, `on average ${d3.mean(ms).toFixed(3)} ms, at most ${d3.max(ms).toFixed(3)} ms`),
    ...memoryCards(memories), ...(arena === null ? [] : [card("Arena", bytes(arena), "for the model's tensors")]));
  byId("sample").textContent = `${label} ${x.at(-1)}`;
  shown.inputs.forEach(drawInput);
  drawOutput(shown);
  // One inference makes no curve.
  byId("curves").hidden = x.length === 1;
  if (x.length > 1) drawCurves(shown);
}

(async () => {
  // Asks for what came since, until the last inference.
  for (let number = 0, last = false; !last;) {
    try {
      const answer = await fetch(`state?after=${number}`);
      shown = await answer.json();
      number = answer.headers.get("X-Number");
      last = answer.headers.get("X-Last") === "1";
    } catch {
      byId("subtitle").textContent += " · ended: the command no longer runs";
      return;
    }
    draw();
  }
})();

let resized;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => shown && draw(), 150);
});
