// Lines over time, by uPlot: one for each gateway, so that gateways can be compared, and changes as marks on the time
// axis.
import { el, each, put, visible } from "./dom.js";
import { lines, shown, switches } from "./series.js";

// What the plots are, and their lines: those that are dashed are the lesser of two. A rare one is
// shown when there is something.
const PLOTS = [
  { key: "ttftPlot", lines: [{ of: "p50", name: "p50", dash: true }, { of: "p90", name: "p90" }], show: "ms" },
  { key: "requestsPlot", lines: [{ of: "requests", name: "" }], show: "perS" },
  {
    key: "cached", lines: [{ of: "expected", name: "cachedExpected", dash: true },
      { of: "reported", name: "cachedReported" }], show: "share", rare: true,
  },
  { key: "refusedPlot", lines: [{ of: "refused", name: "" }], show: "perS", rare: true },
];

const HEIGHT = 180;

// SHORTEST is how long the time axis is at least, in seconds.
const SHORTEST = 30;

// COLORS is how many colors style.css has for gateways, from .color-0 on.
const COLORS = 6;

// newPlots returns the plots of all gateways.
export function newPlots(app) {
  const chosen = new Map();
  const picker = newPicker(app, chosen);
  const plots = PLOTS.map((plot) => newPlot(app, plot));
  const changes = newChanges(app);
  const element = el("div", {}, el("h2", { class: "unseen" }, app.words.say("overTime")), picker.element,
    el("div", { class: "grid" }, ...plots.map((plot) => plot.element)), changes.element);

  function update(history, gateways) {
    picker.update(gateways);
    const clusters = shown(history, gateways.map((gateway) => gateway.name), chosen);
    const drawn = lines(history, clusters);
    const marks = switches(history, clusters);
    plots.forEach((plot) => plot.update(drawn, marks));
    changes.update(marks);
  }
  return { element, update, restyle: () => plots.forEach((plot) => plot.restyle()) };
}

// newPicker returns, for gateways with several clusters, the choice of the one that plots show.
function newPicker(app, chosen) {
  const element = el("div", { class: "pickers" });
  const views = new Map();
  function newPick({ name: gateway }) {
    const select = el("select", { change: () => { chosen.set(gateway, select.value); app.draw(); } });
    const label = el("label", {}, `${app.words.say("shownCluster")}, ${gateway}: `, select);
    let names = "";
    return {
      element: label,
      update({ clusters }) {
        const now = JSON.stringify(clusters.map((cluster) => cluster.name));
        if (now !== names) {
          names = now;
          const before = select.value;
          select.replaceChildren(...clusters.map((cluster) => el("option", {}, cluster.name)));
          if (before) {
            select.value = before;
          }
        }
      },
    };
  }
  return {
    element,
    update: (gateways) => each(element, views, gateways.filter((gateway) => (gateway.clusters ?? []).length > 1),
      (gateway) => gateway.name, newPick),
  };
}

// newPlot returns one plot with its legend, which says the latest values.
function newPlot(app, plot) {
  const legend = el("ul", { class: "legend" });
  const box = el("div", { class: "plot", "aria-hidden": "true" });
  const element = el("figure", { "data-plot": plot.key },
    el("figcaption", {}, app.words.say(plot.key)), box, legend);
  const views = new Map();
  let chart;
  let shape = "";
  let marks = [];
  let latest;
  new ResizeObserver(() => chart?.setSize({ width: box.clientWidth, height: HEIGHT })).observe(box);

  function update(drawn, changes) {
    latest = drawn;
    marks = changes;
    const isThere = (line) => plot.lines.some((part) => line.values[part.of].some(Boolean));
    visible(element, !plot.rare || drawn.all.some(isThere));
    const next = JSON.stringify(drawn.all.map((line) => line.gateway));
    if (next !== shape || !chart) {
      shape = next;
      chart?.destroy();
      chart = new globalThis.uPlot(options(app, plot, drawn, box, () => marks), dataOf(plot, drawn), box);
    } else {
      chart.setData(dataOf(plot, drawn));
    }
    each(legend, views, legendOf(app, plot, drawn), (item) => item.key, newLegend);
  }
  function restyle() {
    shape = "";
    if (latest) {
      update(latest, marks);
    }
  }
  return { element, update, restyle };
}

function dataOf(plot, drawn) {
  return [drawn.times, ...drawn.all.flatMap((line) => plot.lines.map((part) => line.values[part.of]))];
}

function legendOf(app, plot, drawn) {
  const { say, number, percent, ms } = app.words;
  const formats = { ms, share: percent, perS: (value) => number(value, 1) };
  const known = (line) => (part) => line.values[part.of].some((value) => value !== null);
  return drawn.all.flatMap((line, i) => plot.lines.filter(known(line)).map((part) => {
    const name = part.name in { p50: 1, p90: 1 } || !part.name ? part.name : say(part.name);
    const policy = line.policy && line.policy !== line.gateway ? `(${line.policy})` : "";
    return {
      key: JSON.stringify([line.gateway, part.of]), color: i % COLORS, dash: part.dash,
      name: [line.gateway, policy, name].filter(Boolean).join(" "),
      value: formats[plot.show](line.values[part.of].at(-1)),
    };
  }));
}

function newLegend(item) {
  const name = el("span");
  const value = el("b");
  const element = el("li", { class: `color-${item.color}` },
    el("i", { class: item.dash ? "dash" : "line" }), name, " ", value);
  return {
    element,
    update(next) {
      put(name, next.name);
      put(value, next.value);
    },
  };
}

// styleOf returns the color that an element of a class has.
function styleOf(box, name) {
  const probe = el("i", { class: name });
  box.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}

function options(app, plot, drawn, box, marksNow) {
  const { number, percent } = app.words;
  const text = styleOf(box, "axis-text");
  const grid = { stroke: styleOf(box, "axis-grid"), width: 1 };
  const write = plot.show === "share" ? percent : (value) => number(value, value < 10 ? 1 : 0);
  const mark = styleOf(box, "axis-mark");
  return {
    width: box.clientWidth || 300,
    height: HEIGHT,
    padding: [8, 30, 0, 0], // room for the last time below the axis
    legend: { show: false },
    cursor: { drag: { setScale: false } },
    scales: {
      x: { range: (_, low, high) => [low, Math.max(high, low + SHORTEST)] },
      y: { range: (_, low, high) => [0, plot.show === "share" ? 1 : Math.max(1, (high ?? 1) * 1.1)] },
    },
    axes: [
      { stroke: text, grid, ticks: grid, values: (_, times) => times.map((s) => app.words.time(s * 1000)), space: 90 },
      { stroke: text, grid, ticks: grid, values: (_, values) => values.map(write), size: 56 },
    ],
    series: [{}, ...drawn.all.flatMap((_, i) => plot.lines.map((part) => ({
      stroke: styleOf(box, `color-${i % COLORS}`), width: part.dash ? 1 : 2, dash: part.dash ? [4, 4] : undefined,
      points: { show: false }, spanGaps: true,
    })))],
    hooks: { draw: [(chart) => drawMarks(chart, marksNow(), mark)] },
  };
}

// drawMarks draws a line at the time of each change, with its number.
function drawMarks(chart, marks, color) {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.strokeStyle = color;
  ctx.fillStyle = color;
  ctx.font = `${12 * devicePixelRatio}px sans-serif`;
  ctx.textAlign = "left";
  ctx.textBaseline = "top";
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const { at, number } of marks) {
    const x = Math.round(chart.valToPos(at, "x", true));
    if (x >= bbox.left && x <= bbox.left + bbox.width) {
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.fillText(number, x + 3 * devicePixelRatio, bbox.top);
    }
  }
  ctx.restore();
}

// newChanges returns the list of what the marks on the time axis are.
function newChanges(app) {
  const { say, time } = app.words;
  const list = el("ol");
  const element = el("div", { class: "changes" }, el("h3", {}, say("switchesTitle")), list);
  const views = new Map();
  function newChange() {
    const line = el("li");
    const update = (item) => {
      const [text] = (item.note ?? say("policyIs", item)).split("\n"); // a heading says enough
      put(line, `${item.number}. ${time(item.at * 1000)}  ${text}`);
    };
    return { element: line, update };
  }
  return {
    element,
    update(marks) {
      visible(element, marks.length > 0);
      const newest = [...marks].sort((a, b) => b.at - a.at); // in view, however many there are
      each(list, views, newest, (item) => JSON.stringify(item), newChange);
    },
  };
}
