// Plays the frames of a record, and goes to any of them.
import { el, put } from "./dom.js";

const SPEEDS = [1, 2, 4, 8];

// newPlayer returns the controls of a record. show(frame) shows the next frame, and jump(frames) shows the last of
// some, of which the others are its past. It begins at frame `from`, and plays by itself if `playing`.
export function newPlayer(app, frames, { show, jump, from, playing }) {
  const { say, time } = app.words;
  let at = from;
  let speed = 1;
  let timer = 0;
  const button = el("button", { type: "button", click: () => (timer ? stop() : play()) });
  const slider = el("input", {
    type: "range", min: "0", max: String(frames.length - 1), value: "0", "aria-label": say("position"),
    input: () => { go(Number(slider.value)); },
  });
  const clock = el("span", { class: "clock" });
  const rate = el("select", { "aria-label": say("speed"), change: () => { speed = Number(rate.value); } },
    ...SPEEDS.map((n) => el("option", { value: String(n) }, `${n}×`)));
  const element = el("div", { class: "player" }, button, slider, clock, rate);

  function tell() {
    slider.value = String(at);
    const text = time(frames[at].at_ms);
    slider.setAttribute("aria-valuetext", text);
    put(clock, text);
    put(button, say(timer ? "pause" : "play"));
  }
  function go(to) {
    at = to;
    jump(frames.slice(0, at + 1));
    tell();
  }
  function next() {
    if (at + 1 >= frames.length) {
      stop();
      return;
    }
    at++;
    show(frames[at]);
    plan();
    tell();
  }
  function plan() {
    const gap = at + 1 < frames.length ? frames[at + 1].at_ms - frames[at].at_ms : 0;
    timer = setTimeout(next, Math.min(2000, Math.max(0, gap)) / speed);
  }
  function play() {
    if (at + 1 >= frames.length) {
      go(0);
    }
    plan();
    tell();
  }
  function stop() {
    clearTimeout(timer);
    timer = 0;
    tell();
  }
  go(from);
  if (playing) {
    play();
  }
  return { element, stop, at: () => at, plays: () => timer !== 0 };
}
