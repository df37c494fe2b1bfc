// A cluster: its figures, its queue, and its lanes.
import { each, el, put, visible } from "./dom.js";
import { MOST_LANES, laneKey } from "./lanes.js";
import { newLaneRow } from "./laneview.js";

// MOST_DOTS is how many requests of a class in the queue are shown as dots; the number beside them has all.
const MOST_DOTS = 60;

// newCluster returns the view of a cluster. Its items have the cluster, how many requests have ended on which lane, the
// scale of lanes, and whether things may move.
export function newCluster(app) {
  const { say } = app.words;
  const name = el("span");
  const policy = el("span", { class: "policy" });
  const counted = el("span", { class: "quiet" });
  const figures = newFigures(app);
  const queue = newQueue(app);
  const heads = ["addr", "lane", "inFlight", "engine", "kv"];
  const rows = el("tbody");
  const lanes = el("table", { class: "lanes" },
    el("thead", {}, el("tr", {}, ...heads.map((key) => el("th", { scope: "col" }, say(key))))), rows);
  const element = el("section", { class: "cluster" },
    el("h3", {}, name, policy, counted), figures.element, queue.element, lanes);
  const views = new Map();

  function update({ cluster, ended, scaled, moving }) {
    put(name, cluster.name);
    put(policy, cluster.policy);
    put(counted, countedIn(app.words, cluster));
    figures.update(cluster);
    queue.update(cluster.classes ?? []);
    const endpoints = cluster.endpoints ?? [];
    const many = endpoints.length > MOST_LANES;
    lanes.classList.toggle("many", many);
    each(rows, views, endpoints.map((endpoint) => ({
      endpoint, scaled, marked: moving && !many, ended: ended.get(laneKey(cluster.name, endpoint.addr)) ?? 0,
    })), (item) => item.endpoint.addr, () => newLaneRow(app));
  }
  return { element, update };
}

function countedIn({ say }, cluster) {
  const parts = [];
  if (cluster.unit) {
    parts.push(`${say("unit")} ${cluster.unit}`);
  }
  if (cluster.store) {
    parts.push(`${say("store")} ${cluster.store}`);
  }
  return parts.join(", ");
}

// newFigures returns the numbers of a cluster.
function newFigures(app) {
  const { say, number, percent, ms } = app.words;
  const values = {
    requests: (cluster) => number(cluster.requests_per_s, 1),
    refused: (cluster) => number(cluster.refused_per_s, 1),
    ttftFigure: (cluster) => `${ms(cluster.ttft_ms?.p50)} / ${ms(cluster.ttft_ms?.p90)}`,
    cachedFigure: (cluster) => `${percent(cluster.expected_cached)} / ${percent(cluster.reported_cached)}`,
  };
  const element = el("dl", { class: "figures" });
  const cells = new Map();
  for (const key of Object.keys(values)) {
    const cell = el("dd", { "data-figure": key });
    cells.set(key, cell);
    element.append(el("div", {}, el("dt", {}, say(key)), cell));
  }
  return {
    element,
    update(cluster) {
      for (const [key, cell] of cells) {
        put(cell, values[key](cluster));
      }
      // Where no cache is in play, a share of 0 says nothing.
      const cached = (cluster.expected_cached ?? null) !== null || cluster.reported_cached > 0;
      visible(cells.get("cachedFigure").parentElement, cached);
    },
  };
}

// newQueue returns the queue, with a row for each class.
function newQueue(app) {
  const { say } = app.words;
  const rows = el("tbody");
  const heads = ["class", "queue", "waiting", "refused"];
  const element = el("table", { class: "queue" },
    el("thead", {}, el("tr", {}, ...heads.map((key) => el("th", { scope: "col" }, say(key))))), rows);
  const views = new Map();
  return {
    element,
    update(classes) {
      visible(element, classes.length > 0);
      each(rows, views, classes, (item) => item.name, () => newClass(app));
    },
  };
}

function newClass(app) {
  const name = el("th", { scope: "row" });
  const dots = el("span", { class: "dots", "aria-hidden": "true" });
  const waiting = el("td", { class: "number" });
  const refused = el("td", { class: "number" });
  const element = el("tr", {}, name, el("td", {}, dots), waiting, refused);
  return {
    element,
    update(item) {
      put(name, item.name);
      put(waiting, app.words.number(item.waiting));
      put(refused, app.words.number(item.refused_per_s, 1));
      const many = Math.min(MOST_DOTS, item.waiting);
      while (dots.childElementCount > many) {
        dots.firstChild.remove();
      }
      while (dots.childElementCount < many) {
        dots.append(el("i"));
      }
    },
  };
}
