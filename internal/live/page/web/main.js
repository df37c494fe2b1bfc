// Puts the page together: frames come from the server, or from a record inside the page.
import { learn, newChoices } from "./choices.js";
import { newDecisions } from "./choiceview.js";
import { each, el, keep, put, remembered, visible } from "./dom.js";
import { follow } from "./feed.js";
import { newGateway } from "./gatewayview.js";
import { scale, steady } from "./lanes.js";
import { newPlayer } from "./player.js";
import { newPlots } from "./plotview.js";
import { add, newHistory } from "./series.js";
import { languageOf, newWords } from "./words.js";

// LATE is after how many milliseconds without a frame the page says so.
const LATE = 10000;

const THEMES = ["system", "light", "dark"];
const locales = [...navigator.languages];
const stillness = matchMedia("(prefers-reduced-motion: reduce)");
const darkness = matchMedia("(prefers-color-scheme: dark)");

const app = {
  words: newWords(remembered("language") || languageOf(locales), locales),
  facts: {},
  history: newHistory(),
  choices: newChoices(),
  frame: null,
  record: null, // the frames of one
  scaled: null, // how long lanes are
  open: "", // the key of the decision that is shown
  paused: false,
  state: "connecting",
  arrived: 0, // when the last frame did
  views: null,
  player: null,
  draw: () => draw(true),
};

// build makes all that the page shows; again when the language is another one.
function build() {
  document.documentElement.lang = app.words.language === "zh" ? "zh-CN" : "en";
  app.views = { gateways: new Map(), plots: newPlots(app), decisions: newDecisions(app), state: null };
  for (const id of ["gateways", "plots", "decisions", "facts"]) {
    document.getElementById(id).replaceChildren();
  }
  document.getElementById("plots").append(app.views.plots.element);
  document.getElementById("decisions").append(app.views.decisions.element);
  buildTop();
  buildKey();
  showFacts();
  if (app.record) {
    startPlayer();
  } else {
    draw(true);
  }
}

function buildTop() {
  const { say } = app.words;
  const state = el("span", { class: "state" });
  const pause = el("button", {
    type: "button", "aria-pressed": String(app.paused),
    click: () => {
      app.paused = !app.paused;
      pause.setAttribute("aria-pressed", String(app.paused));
      draw();
    },
  }, say("pause"));
  const theme = el("button", { type: "button", id: "theme", click: () => nextTheme(theme) });
  const language = el("button", { type: "button", id: "language", click: nextLanguage }, say("language"));
  language.lang = app.words.language === "zh" ? "en" : "zh-CN";
  app.views.state = state;
  const top = document.getElementById("top");
  top.replaceChildren(el("h1", {}, app.facts.title || "Warmgate"), state, el("span", { class: "gap" }),
    ...(app.record ? [] : [pause]), theme, language);
  setTheme(theme, remembered("theme") || THEMES[0]);
  showState();
}

// buildKey explains what is drawn on lanes. Where nothing moves there are none.
function buildKey() {
  const parts = [["runs", "running"], ["waits", "waiting"], ["cap-line", "cap"], ["push-line", "push"]];
  const items = parts.map(([name, word]) => el("span", {}, el("i", { class: name }), app.words.say(word)));
  [, , app.views.cap, app.views.push] = items;
  app.views.each = el("span");
  const flow = el("span", {}, app.words.say("flow"));
  document.getElementById("key").replaceChildren(...items, flow, app.views.each);
}

function setTheme(button, theme) {
  document.documentElement.dataset.theme = theme;
  put(button, app.words.say({ light: "themeLight", dark: "themeDark" }[theme] ?? "system"));
  app.views.plots.restyle();
}

function nextTheme(button) {
  const theme = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  keep("theme", theme);
  setTheme(button, theme);
}

function nextLanguage() {
  const language = app.words.language === "zh" ? "en" : "zh";
  keep("language", language);
  app.words = newWords(language, locales);
  build();
  document.getElementById("language").focus();
}

function showFacts() {
  const { about, tables, texts } = app.facts;
  const parts = [
    ...(about ?? []).map((text) => el("p", {}, text)),
    ...(tables ?? []).map((table) => el("div", { class: "scrolls", tabindex: "0", role: "group",
      "aria-label": table.name }, el("table", { class: "results" }, el("caption", {}, table.name),
      el("thead", {}, el("tr", {}, ...table.head.map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, ...table.rows.map((row) => el("tr", {}, ...row.map((text) => el("td", {}, text)))))))),
    ...(texts ?? []).map(({ name, text }) => el("details", {}, el("summary", {}, name), el("pre", {}, text))),
  ];
  const heading = parts.length ? [el("h2", {}, app.words.say("facts"))] : [];
  document.getElementById("facts").replaceChildren(...heading, ...parts);
  document.title = app.facts.title || "Warmgate";
  put(document.querySelector("h1"), app.facts.title || "Warmgate");
}

function showState() {
  const { say, time } = app.words;
  const at = app.frame ? time(app.frame.at_ms) : say("noFrame");
  const late = !app.record && app.frame && Date.now() - app.arrived > LATE;
  const connected = late ? say("late", { at }) : at;
  put(app.views.state, { connected, lost: say("lost"), connecting: say("connecting") }[app.state]);
  app.views.state.classList.toggle("lost", app.state === "lost" || late);
}

// speak has a reader for the blind speak a text.
function speak(text) {
  put(document.getElementById("spoken"), text);
}

// draw shows the latest frame. While the page is paused it does so only if it was asked to show something else.
function draw(asked = false) {
  showState();
  if (!app.frame || app.paused && !asked) {
    return;
  }
  const note = document.getElementById("note");
  visible(note, Boolean(app.frame.note));
  put(note, app.frame.note);
  note.classList.toggle("lines", Boolean(app.frame.note?.includes("\n")));
  const gateways = app.frame.gateways ?? [];
  const moving = !stillness.matches;
  visible(document.getElementById("key"), moving);
  const clusters = gateways.flatMap((gateway) => gateway.clusters ?? []);
  const endpoints = clusters.flatMap((cluster) => cluster.endpoints ?? []);
  visible(app.views.cap, endpoints.some((endpoint) => endpoint.cap));
  visible(app.views.push, endpoints.some((endpoint) => endpoint.push_limit));
  const scaled = steady(app.scaled, scale(endpoints));
  app.scaled = scaled;
  visible(app.views.each, scaled.each > 1);
  put(app.views.each, app.words.say("eachMark", { n: scaled.each }));
  each(document.getElementById("gateways"), app.views.gateways,
    gateways.map((gateway) => ({ gateway, scaled, moving })), (item) => item.gateway.name, () => newGateway(app));
  app.views.plots.update(app.history, gateways);
  app.views.decisions.update(app.choices);
  document.body.dataset.at = app.frame.at_ms; // what is on the page now, for programs that look at it
}

// take adds a frame to what is known.
function take(frame) {
  if (app.frame && frame.note && frame.note !== app.frame.note) {
    speak(frame.note);
  }
  app.frame = frame;
  add(app.history, frame);
  learn(app.choices, frame);
}

// startPlayer begins to play the record, or goes on where it was.
function startPlayer() {
  // Nothing moves by itself for those who do not want it: they begin with how it ended.
  const from = app.player?.at() ?? (stillness.matches ? app.record.length - 1 : 0);
  const playing = app.player?.plays() ?? !stillness.matches;
  app.player?.stop();
  app.player = newPlayer(app, app.record, {
    from,
    playing,
    show(frame) {
      take(frame);
      draw();
    },
    jump(frames) {
      app.history = newHistory();
      app.choices = newChoices();
      frames.forEach(take);
      draw();
    },
  });
  document.getElementById("top").append(app.player.element);
}

function start() {
  const record = document.getElementById("record");
  if (record) {
    const { facts, frames } = JSON.parse(record.textContent);
    app.facts = facts;
    app.record = frames.length ? frames : null;
    app.state = "connected";
    build();
    return;
  }
  build();
  setInterval(showState, 1000);
  follow("events", {
    facts(facts) {
      app.facts = facts;
      showFacts();
    },
    past(frames) {
      app.history = newHistory();
      frames.forEach((frame) => add(app.history, frame));
    },
    frame(frame) {
      app.arrived = Date.now();
      take(frame);
      draw();
    },
    state(state) {
      if (state !== app.state) {
        app.state = state;
        speak(app.words.say(state));
        showState();
      }
    },
  });
}

stillness.addEventListener("change", () => draw());
darkness.addEventListener("change", () => app.views.plots.restyle());
start();
