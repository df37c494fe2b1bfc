// Draws a dashboard of Grafana by what Prometheus answers, for pictures and for tests of the dashboards: the panels
// that build/dashboards makes, and no others. ?last=seconds says how far back, ?end=seconds since 1970 until when.
const COLORS = ["#5794f2", "#73bf69", "#f2cc0c", "#ff9830", "#b877d9", "#f2495c", "#8ab8ff", "#37872d", "#a352cc",
  "#fa6400", "#1f60c4", "#96d98d"];

// UNITS has, for each of Grafana's units, what 1 is called at growing sizes.
const UNITS = {
  ms: [[1e-3, "µs"], [1, "ms"], [1e3, "s"], [6e4, "min"]], "µs": [[1, "µs"], [1e3, "ms"], [1e6, "s"]],
  s: [[1e-3, "ms"], [1, "s"], [60, "min"]], reqps: [[1, "req/s"]], cps: [[1, "/s"]], percentunit: [[0.01, "%"]],
  percent: [[1, "%"]], "si:tok/s": [[1, "tok/s"], [1e3, "ktok/s"], [1e6, "Mtok/s"]],
};

const options = new URLSearchParams(location.search);
const end = Number(options.get("end")) || Math.floor(Date.now() / 1000);
const last = Number(options.get("last")) || 900;
const step = Math.max(1, Math.round(last / 150));

function shown(value, unit) {
  const sizes = UNITS[unit] || [[1, ""], [1e3, "k"], [1e6, "M"]];
  const [size, name] = sizes.findLast(([size]) => Math.abs(value) >= size) || sizes[0];
  if (unit.startsWith("suffix:")) {
    return `${Math.round(value)} ${unit.slice("suffix:".length)}`;
  }
  const digits = Number((value / size).toPrecision(3));
  return `${digits} ${name}`.trim();
}

function named(legend, labels) {
  return legend.replace(/{{(\w+)}}/g, (_, label) => labels[label] || "");
}

async function ask(kind, target, times) {
  const query = target.expr.replaceAll("$__rate_interval", `${Math.max(4 * step, 10)}s`)
    .replace(/\$(cluster|model)/g, ".*");
  const response = await fetch(`api/v1/${kind}?${new URLSearchParams({ query, ...times })}`);
  const answer = await response.json();
  if (answer.status !== "success") {
    throw new Error(`${query}: ${answer.error}`);
  }
  return answer.data.result.map((series) => ({ ...series, name: named(target.legendFormat, series.metric) }));
}

function el(name, attributes, ...children) {
  const element = Object.assign(document.createElement(name), attributes);
  element.append(...children);
  return element;
}

function nothing(panel) {
  return el("div", { className: "none" }, panel.fieldConfig.defaults.noValue || "No data");
}

async function drawStat(section, panel, isTile) {
  const answers = await Promise.all(panel.targets.map((target) => ask("query", target, { time: end })));
  const found = answers.flat().filter((series) => !Number.isNaN(Number(series.value[1])));
  if (found.length === 0) {
    section.append(nothing(panel));
  }
  for (const series of found) {
    const value = Number(series.value[1]);
    const { unit, thresholds, mappings = [] } = panel.fieldConfig.defaults;
    const text = mappings.map((mapping) => mapping.options[value]?.text).find(Boolean) || shown(value, unit);
    if (isTile) {
      const { color } = thresholds.steps.findLast((step) => step.value === null || value >= step.value);
      section.append(el("div", { className: `tile ${color}` }, el("span", {}, series.name), el("small", {}, text)));
    } else {
      section.append(el("div", { className: "number" }, text));
    }
  }
}

// stack adds up lines, so that each stands on those before it.
function stack(lines) {
  return lines.map((line, i) => line.map((_, t) => {
    const below = lines.slice(0, i + 1).map((other) => other[t] ?? 0);
    return below.reduce((sum, value) => sum + value, 0);
  }));
}

async function drawLines(section, panel) {
  const times = { start: end - last, end, step };
  const found = (await Promise.all(panel.targets.map((target) => ask("query_range", target, times)))).flat();
  if (found.length === 0) {
    section.append(nothing(panel));
    return;
  }
  const xs = Array.from({ length: Math.floor(last / step) + 1 }, (_, i) => end - last + i * step);
  let lines = found.map((series) => {
    const at = new Map(series.values.map(([time, value]) => [time, Number(value)]));
    return xs.map((x) => { const y = at.get(x); return y === undefined || !Number.isFinite(y) ? null : y; });
  });
  if (lines.flat().every((y) => y === null)) {
    section.append(nothing(panel));
    return;
  }
  const { unit, custom } = panel.fieldConfig.defaults;
  const stacked = custom.stacking.mode === "normal";
  if (stacked) {
    lines = stack(lines);
  }
  const color = (i) => COLORS[i % COLORS.length];
  const legend = found.slice(0, 12).flatMap((series, i) => {
    const mark = el("b");
    mark.style.background = color(i);
    return [el("span", {}, mark, series.name), " "];
  });
  const place = el("div");
  place.style.flex = "1";
  section.append(place, el("div", { className: "legend" }, ...legend));
  const series = lines.map((_, i) => ({ stroke: color(i), width: 1.2, points: { show: false },
    fill: stacked ? `${color(i)}30` : undefined }));
  const top = Math.max(...lines.flat().filter((y) => y !== null)) || 1;
  new uPlot({
    width: section.clientWidth - 16, height: place.clientHeight, legend: { show: false }, cursor: { show: false },
    scales: { y: { range: [0, top * 1.1] } }, series: [{}, ...series],
    axes: [{ grid: { stroke: "#eee" }, font: "10px sans-serif", size: 24 },
      { grid: { stroke: "#eee" }, font: "10px sans-serif", size: 68,
        values: (_, values) => values.map((value) => value === 0 ? "0" : shown(value, unit)) }],
  }, [xs, ...lines], place);
}

async function draw(panel) {
  const { x, y, w, h } = panel.gridPos;
  const element = panel.type === "row" ? el("h2", {}, panel.title) : el("section", {}, el("h3", {}, panel.title));
  element.style.gridArea = `${y + 1} / ${x + 1} / span ${h} / span ${w}`;
  document.querySelector("main").append(element);
  if (panel.type === "stat") {
    await drawStat(element, panel, panel.options.textMode === "value_and_name");
  } else if (panel.type !== "row") {
    await drawLines(element, panel);
  }
}

const board = await (await fetch("board.json")).json();
document.querySelector("h1").textContent = board.title;

// chosen returns the panels of the rows that are asked for, all for none, one row below the other.
function chosen(panels, rows) {
  let [row, begins, height] = ["", 0, 0];
  const list = [];
  for (const panel of panels) {
    if (panel.type === "row") {
      [row, begins] = [panel.title, panel.gridPos.y - height];
    }
    if (rows.length === 0 || rows.includes(row)) {
      const gridPos = { ...panel.gridPos, y: panel.gridPos.y - begins };
      height = Math.max(height, gridPos.y + gridPos.h);
      list.push({ ...panel, gridPos });
    }
  }
  return list;
}

const panels = chosen(board.panels, (options.get("rows") || "").split(",").filter(Boolean));
for (const panel of panels) {
  await draw(panel);
}
document.body.dataset.drawn = panels.length;
