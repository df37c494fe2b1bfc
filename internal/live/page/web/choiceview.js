// The latest decisions, and one of them with what each candidate would have cost.
import { account, latest } from "./choices.js";
import { each, el, put, visible } from "./dom.js";

// SHOWN is how many decisions are listed.
const SHOWN = 60;

// newDecisions returns the list of decisions and what is said of the one that is open. While the list is looked at, it
// stays as it is.
export function newDecisions(app) {
  const { say } = app.words;
  const list = el("ol", { class: "choices", "aria-label": say("decisions") });
  const newer = el("button", { type: "button", class: "newer", hidden: "", click: () => fill() });
  const hint = el("p", { class: "quiet" });
  const detail = newDetail(app, close);
  const element = el("div", { class: "split" },
    el("div", {}, el("h2", {}, say("decisions")), hint, newer, list), detail.element);
  const views = new Map();
  let all = [];
  let top = 0;

  list.addEventListener("keydown", (event) => walk(list, event));
  element.addEventListener("keydown", (event) => event.key === "Escape" && app.open && close());

  function close() {
    const before = app.open;
    app.open = "";
    detail.show(null);
    mark();
    views.get(before)?.element.firstChild.focus();
  }
  function choose(key) {
    app.open = key;
    mark();
    detail.show(all.find((item) => item.key === key));
  }
  function mark() {
    for (const [key, view] of views) {
      view.element.firstChild.setAttribute("aria-pressed", String(key === app.open));
    }
  }
  function fill() {
    top = all[0]?.decision.at_ms ?? 0;
    each(list, views, all.slice(0, SHOWN), (item) => item.key, (item) => newLine(app, () => choose(item.key)));
    newer.hidden = true;
    mark();
  }
  function update(choices) {
    all = latest(choices);
    put(hint, say(all.length ? "choose" : "needless"));
    if (list.matches(":hover, :focus-within")) {
      const known = new Map(all.map((item) => [item.key, item]));
      views.forEach((view, key) => known.has(key) && view.update(known.get(key)));
      const n = all.filter((item) => item.decision.at_ms > top).length;
      newer.hidden = n === 0;
      put(newer, say("newer", { n }));
    } else {
      fill();
    }
    const shown = all.find((item) => item.key === app.open);
    if (shown) { // else it is one of long ago, and stays
      detail.show(shown);
    }
  }
  return { element, update };
}

// walk moves the focus along a list of buttons by the keys for that.
function walk(list, event) {
  const buttons = [...list.querySelectorAll("button")];
  const at = buttons.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
  if (to === undefined || at < 0) {
    return;
  }
  event.preventDefault();
  buttons[Math.min(buttons.length - 1, Math.max(0, to))].focus();
}

// newLine returns a decision in the list.
function newLine(app, choose) {
  const { time, ms } = app.words;
  const parts = ["when", "where", "what", "why", "took"].map((name) => el("span", { class: name }));
  const [when, where, what, why, took] = parts;
  const button = el("button", { type: "button", "aria-pressed": "false", click: choose }, ...parts);
  return {
    element: el("li", {}, button),
    update({ gateway, decision }) {
      put(when, time(decision.at_ms));
      put(where, gateway);
      put(what, decision.region ? `⇢ ${decision.region}` : decision.endpoint ? `→ ${decision.endpoint}` : "✕");
      put(why, decision.reason);
      put(took, decision.ttft_ms ? `TTFT ${ms(decision.ttft_ms)}` : decision.result ?? "");
    },
  };
}

// newDetail returns what is said of one decision.
function newDetail(app, close) {
  const { say, time } = app.words;
  const title = el("h2");
  const lead = el("p", { class: "lead" });
  const facts = el("dl", { class: "figures" });
  const table = el("div", { class: "scrolls", tabindex: "0", role: "group", "aria-label": say("cost") });
  const others = el("p", { class: "quiet" });
  const element = el("section", { class: "detail", "aria-live": "off", hidden: "" },
    el("button", { type: "button", class: "close", click: close }, say("close")), title, lead, facts, table, others);
  let text = "";

  function show(item) {
    visible(element, Boolean(item));
    const next = JSON.stringify(item);
    if (!item || next === text) {
      text = item ? text : "";
      return;
    }
    text = next;
    const { decision, gateway } = item;
    const accounted = account(decision);
    put(title, `${say("decision")} ${decision.id}, ${gateway}, ${time(decision.at_ms)}`);
    put(lead, leadOf(app.words, decision, accounted));
    facts.replaceChildren(...factsOf(app.words, decision).map(([name, value]) =>
      el("div", {}, el("dt", {}, name), el("dd", {}, value))));
    table.replaceChildren(costTable(app.words, accounted.rows));
    put(others, decision.others ? say("others", { n: app.words.number(decision.others) }) : "");
  }
  return { element, show };
}

// leadOf says who has won, and by how much.
function leadOf({ say, number }, decision, { winner, margin, rival }) {
  if (!decision.endpoint && !decision.region) {
    return say("noneChosen", { reason: decision.reason });
  }
  if (margin === null) {
    return say("noLead");
  }
  if (margin === 0) {
    return say("tied", { addr: winner.addr, rival });
  }
  const cost = number(winner.cost + margin, 3);
  return margin < 0
    ? say("wonThough", { addr: winner.addr, rival, n: number(-margin, 3) })
    : say("wonBy", { addr: winner.addr, rival, n: number(margin, 3), cost });
}

// factsOf returns what is known of a decision, as names and values.
function factsOf({ say, number, ms }, decision) {
  const used = decision.usage;
  const facts = [
    [say("reason"), decision.reason],
    [say("rule"), decision.rule],
    [say("endpoint"), decision.endpoint],
    [say("region"), decision.region],
    [say("model"), decision.model],
    [say("class"), decision.class],
    [say("waited"), decision.wait_ms ? ms(decision.wait_ms) : ""],
    [say("prompt"), number(decision.prompt_tokens)],
    [say("output"), number(decision.output_tokens)],
    [say("blocks"), decision.blocks ? number(decision.blocks) : ""],
    [say("ttft"), decision.ttft_ms ? ms(decision.ttft_ms) : ""],
    [say("took"), decision.took_ms ? ms(decision.took_ms) : ""],
    [say("result"), decision.result],
    [say("used"), used ? [used.prompt, used.cached, used.output].map((n) => number(n)).join(" / ") : ""],
  ];
  return facts.filter(([, value]) => value);
}

// costTable returns the candidates with their costs, term by term.
function costTable({ say, number, percent }, rows) {
  const terms = [["base", ""], ["load", "+"], ["over", "+"], ["credit", "−"]];
  const plain = ["matched", "inFlight"];
  const heads = [say("addr"), ...terms.map(([key, sign]) => `${sign} ${say(key)}`.trim()), `= ${say("cost")}`,
    ...plain.map((key) => say(key))];
  const body = rows.map((row) => {
    const numbers = [...terms.map(([key]) => row[key]), row.cost];
    const name = [row.addr, row.chosen ? `(${say("chosen")})` : "", row.full ? `(${say("full")})` : ""];
    return el("tr", { class: row.chosen ? "chosen" : row.full ? "full" : "" },
      el("th", { scope: "row" }, name.filter(Boolean).join(" ")),
      ...numbers.map((value) => el("td", { class: "number" }, number(value, 3))),
      el("td", { class: "number" }, percent(row.matched)), el("td", { class: "number" }, number(row.requests)));
  });
  return el("table", { class: "costs" },
    el("thead", {}, el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, ...body));
}
