// A gateway: what it is, its clusters, the other regions as it sees them, and why it has decided so.
import { newCluster } from "./clusterview.js";
import { each, el, put, visible } from "./dom.js";
import { endedBy } from "./lanes.js";

// newGateway returns the view of a gateway. Its items have the gateway, the scale of lanes, and whether
// things may move.
export function newGateway(app) {
  const name = el("span");
  const about = el("span", { class: "quiet" });
  const down = el("span", { class: "down" });
  const problems = el("ul", { class: "problems" });
  const none = el("p", { class: "quiet" }, app.words.say("noCluster"));
  const clusters = el("div");
  const regions = newRegions(app);
  const reasons = newReasons(app);
  const element = el("article", { class: "gateway" },
    el("h2", {}, name, about, down), problems, regions.element, none, clusters, reasons.element);
  const views = new Map();
  const problemViews = new Map();

  function update({ gateway, scaled, moving }) {
    const { say } = app.words;
    put(name, gateway.name);
    const version = gateway.version ? `${say("version")} ${gateway.version}` : "";
    put(about, [gateway.region, version].filter(Boolean).join(", "));
    put(down, gateway.up ? "" : say("down"));
    element.classList.toggle("is-down", !gateway.up);
    each(problems, problemViews, gateway.problems ?? [], (text) => text, newProblem);
    visible(none, gateway.up && !gateway.clusters?.length);
    const ended = endedBy(gateway.decisions);
    each(clusters, views, (gateway.clusters ?? []).map((cluster) => ({ cluster, ended, scaled, moving })),
      (item) => item.cluster.name, () => newCluster(app));
    regions.update(gateway.regions ?? []);
    reasons.update(gateway.reasons ?? []);
  }
  return { element, update };
}

function newProblem() {
  const element = el("li");
  return { element, update: (text) => put(element, text) };
}

// newRegions returns the rows of other regions, with what goes there and comes from there.
function newRegions(app) {
  const { say, number } = app.words;
  const rows = el("tbody");
  const heads = ["region", "health", "rtt", "forwarded", "served"];
  const element = el("table", { class: "regions" },
    el("thead", {}, el("tr", {}, ...heads.map((key) => el("th", { scope: "col" }, say(key))))), rows);
  const views = new Map();
  function newRegion() {
    const name = el("th", { scope: "row" });
    const [state, rtt, forwarded, served] = ["", "number", "number", "number"].map((key) => el("td", { class: key }));
    return {
      element: el("tr", {}, name, state, rtt, forwarded, served),
      update(region) {
        put(name, region.name);
        put(state, region.available ? (region.adopted ? say("adopted") : say("available")) : say("unavailable"));
        put(rtt, `${number(region.rtt_ms)} ms`);
        put(forwarded, `→ ${number(region.forwarded_per_s, 1)}`);
        put(served, `← ${number(region.served_per_s, 1)}`);
        forwarded.classList.toggle("flows", region.forwarded_per_s > 0);
        served.classList.toggle("flows", region.served_per_s > 0);
      },
    };
  }
  return {
    element,
    update(regions) {
      visible(element, regions.length > 0);
      each(rows, views, regions, (region) => region.name, newRegion);
    },
  };
}

// newReasons returns the table of decisions by policy and reason.
function newReasons(app) {
  const { say, number } = app.words;
  const rows = el("tbody");
  const heads = ["policy", "reason", "perS", "total"];
  const element = el("details", { class: "reasons" }, el("summary", {}, say("reasons")),
    el("table", {}, el("thead", {}, el("tr", {}, ...heads.map((key) => el("th", { scope: "col" }, say(key))))), rows));
  const views = new Map();
  function newReason() {
    const cells = ["", "", "number", "number"].map((name) => el("td", { class: name }));
    return {
      element: el("tr", {}, ...cells),
      update(item) {
        const texts = [item.policy, item.reason, number(item.per_s, 1), number(item.total)];
        texts.forEach((text, i) => put(cells[i], text));
      },
    };
  }
  return {
    element,
    update(reasons) {
      visible(element, reasons.length > 0);
      each(rows, views, reasons, (item) => JSON.stringify([item.policy, item.reason]), newReason);
    },
  };
}
