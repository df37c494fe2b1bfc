// A lane: the row of an endpoint. Its requests are marks that come from the left, wait, run, and leave at the right.
import { el, put } from "./dom.js";
import { limit, load, newLane, place, step } from "./lanes.js";

// Within this time the marks of a frame set off, one after another, so that the next frame finds all under way.
const SPREAD = 700;

// LEAVING is how long a mark is still to be seen when its request has ended; style.css has it, too.
const LEAVING = 700;

// newLaneRow returns the view of an endpoint. Its items have the endpoint, the scale of lanes, how many
// of its requests have ended, and whether it has marks.
export function newLaneRow(app) {
  const name = el("th", { scope: "row" });
  const addr = el("span", { class: "addr" });
  const health = el("span", { class: "health" });
  name.append(addr, health);
  const track = newTrack();
  const cells = {};
  const row = el("tr", { class: "lane" }, name, el("td", { class: "way" }, track.element));
  for (const key of ["inFlight", "engine", "kv"]) {
    cells[key] = el("td", { class: "number " + key, "data-name": app.words.say(key) });
    row.append(cells[key]);
  }
  const kv = el("span", { class: "bar" }, el("i"));
  const kvText = el("span");
  cells.kv.append(kvText, kv);

  function update({ endpoint, scaled, ended, marked }) {
    const { say, number, percent } = app.words;
    put(addr, endpoint.addr);
    addr.title = endpoint.zone ? `${endpoint.addr}, ${say("zone")} ${endpoint.zone}` : endpoint.addr;
    put(health, endpoint.health === "healthy" ? "" : endpoint.health);
    row.dataset.health = endpoint.health;
    put(cells.inFlight, number(endpoint.requests) + (endpoint.cap ? ` / ${number(endpoint.cap)}` : ""));
    put(cells.engine, `${number(endpoint.running)} + ${number(endpoint.waiting)}`);
    const share = endpoint.kv_cache ?? 0;
    kv.style.setProperty("--share", Math.min(1, Math.max(0, share)));
    put(kvText, percent(endpoint.kv_cache));
    track.update(endpoint, scaled, ended, marked);
  }
  return { element: row, update };
}

// newTrack returns what is drawn of a lane. It says nothing that the numbers beside it do not say.
function newTrack() {
  const marks = new Map();
  const bars = el("span", { class: "bars" }, el("i", { class: "waits" }), el("i", { class: "runs" }));
  const limits = { cap: el("i", { class: "limit cap" }), push_limit: el("i", { class: "limit push" }) };
  const element = el("div", { class: "track", "aria-hidden": "true" }, bars, limits.cap, limits.push_limit);
  let lane = newLane();

  function showMarks(endpoint, scaled, ended) {
    for (const mark of step(lane, endpoint, scaled.each, ended)) {
      const shown = marks.get(mark.id);
      marks.delete(mark.id);
      move(shown, 104);
      shown.classList.add("gone");
      setTimeout(() => shown.remove(), SPREAD + LEAVING);
    }
    const fresh = [];
    lane.marks.forEach((mark, i) => {
      let shown = marks.get(mark.id);
      if (!shown) {
        shown = el("i", { class: "mark" });
        shown.style.setProperty("--x", -4);
        marks.set(mark.id, shown);
        fresh.push([shown, i]);
        element.append(shown);
      } else {
        move(shown, place(i, scaled));
      }
      shown.classList.toggle("waiting", mark.waits);
    });
    if (fresh.length) {
      element.getBoundingClientRect(); // so that they are on the left before they set off
      fresh.forEach(([shown, i]) => move(shown, place(i, scaled)));
    }
    element.style.setProperty("--mark", (100 * scaled.each) / scaled.length);
  }

  function update(endpoint, scaled, ended, marked) {
    showLimits(limits, endpoint, scaled);
    bars.hidden = marked;
    if (marked) {
      showMarks(endpoint, scaled, ended);
      return;
    }
    showBars(bars.children, endpoint, scaled);
    marks.forEach((shown) => shown.remove());
    marks.clear();
    lane = newLane();
  }
  return { element, update };
}

function showLimits(lines, endpoint, scaled) {
  for (const [key, line] of Object.entries(lines)) {
    const at = limit(endpoint[key] ?? 0, scaled);
    line.hidden = at === null;
    line.style.setProperty("--x", at ?? 0);
  }
}

function showBars([waits, runs], endpoint, scaled) {
  const { running, waiting } = load(endpoint);
  waits.style.setProperty("--share", Math.min(1, waiting / scaled.length));
  runs.style.setProperty("--share", Math.min(1, running / scaled.length));
}

// move sends a mark to a place on its lane, at some time before the next frame.
function move(shown, x) {
  const to = String(x);
  if (shown.style.getPropertyValue("--x") !== to) {
    shown.style.setProperty("--wait", Math.round(Math.random() * SPREAD) + "ms");
    shown.style.setProperty("--x", to);
  }
}
