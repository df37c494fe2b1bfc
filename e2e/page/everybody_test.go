package page

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	livepage "github.com/warmgate/warmgate/internal/live/page"
)

// contrasts finds texts whose color is too close to what is behind them: WCAG 2 asks for 4.5 to 1. It returns how many
// it has looked at, and which of them are below.
const contrasts = `(() => {
  const parse = (color) => color.match(/[\d.]+/g).map(Number);
  const over = (front, back) => {
    const alpha = front[3] ?? 1;
    return back.map((value, i) => front[i] * alpha + value * (1 - alpha));
  };
  const behind = (e) => {
    if (!e) {
      return [255, 255, 255];
    }
    const color = parse(getComputedStyle(e).backgroundColor);
    return (color[3] ?? 1) === 1 ? color : over(color, behind(e.parentElement));
  };
  const light = (color) => {
    const [r, g, b] = color.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = { looked: 0, below: [] };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const e = node.parentElement;
    if (!node.data.trim() || !e.checkVisibility({ opacityProperty: true, visibilityProperty: true })) {
      continue;
    }
    const back = behind(e);
    const [a, b] = [light(over(parse(getComputedStyle(e).color), back)), light(back)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    found.looked++;
    if (contrast < 4.5) {
      found.below.push(e.className + " " + node.data + " " + contrast);
    }
  }
  return found;
})()`

// opened opens the page with a story up to its third act, and one decision.
func opened(t *testing.T, flags ...chromedp.ExecAllocatorOption) (browser, *livepage.Server) {
	t.Helper()
	frames := story(90)
	s, url := serve(t, livepage.Facts{
		About: []string{"What is to be seen"}, Texts: []livepage.Text{{Name: "configuration", Text: "a: b"}},
		Tables: []livepage.Table{{Name: "results", Head: []string{"policy", "TTFT"}, Rows: [][]string{{"a", "1"}}}},
	})
	show(t, s, frames[:68]...)
	last := frames[68]
	last.Gateways[1].Up, last.Gateways[1].Problems = false, []string{"the administration does not answer"}
	show(t, s, last)
	b := open(t, flags...)
	b.do(t, chromedp.Navigate(url))
	at(t, b, last)
	return b, s
}

// openDecision opens the newest decision.
func openDecision(t *testing.T, b browser) {
	t.Helper()
	b.do(t, chromedp.Click(".choices button", chromedp.ByQuery))
	b.until(t, `!document.querySelector(".detail").hidden`)
}

func TestThemes(t *testing.T) {
	b, _ := opened(t)
	openDecision(t, b)
	type contrast struct {
		Looked int
		Below  []string
	}
	check := func(name, background string) {
		t.Helper()
		if got := eval[string](t, b, `getComputedStyle(document.body).backgroundColor`); got != background {
			t.Errorf("%s: the background is %s", name, got)
		}
		if got := eval[contrast](t, b, contrasts); got.Looked < 150 || len(got.Below) > 0 {
			t.Errorf("%s: of %d texts are hard to read: %q", name, got.Looked, got.Below)
		}
		colors := eval[int](t, b, `new Set([0, 1, 2, 3, 4, 5].map((i) => {
		  const probe = document.body.appendChild(document.createElement("i"));
		  probe.className = "color-" + i;
		  return getComputedStyle(probe).color;
		})).size`)
		if colors != 6 {
			t.Errorf("%s: %d colors of lines", name, colors)
		}
	}
	const light, dark = "rgb(245, 246, 248)", "rgb(20, 23, 27)"
	prefer := func(scheme string) chromedp.Action {
		return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme},
		})
	}
	b.do(t, prefer("light"))
	check("system, light", light)
	b.do(t, prefer("dark"))
	check("system, dark", dark)
	b.do(t, chromedp.Click("#theme"))
	check("light, where the system is dark", light)
	b.do(t, chromedp.Click("#theme"), prefer("light"))
	check("dark, where the system is light", dark)
	b.do(t, chromedp.Reload(), chromedp.WaitVisible("tr.lane"))
	if got := eval[string](t, b, `getComputedStyle(document.body).backgroundColor`); got != dark {
		t.Errorf("after it is loaded again the background is %s", got)
	}
}

// Everything can be reached by the Tab key, shows that it has the focus, and works by keys.
func TestKeyboard(t *testing.T) {
	b, _ := opened(t)
	all := eval[int](t, b, `(() => {
	  const all = [...document.querySelectorAll("button, select, summary, input, [tabindex='0']")]
	    .filter((e) => e.checkVisibility());
	  all.forEach((e, i) => { e.dataset.walked = String(i); });
	  return all.length;
	})()`)
	if all < 9 {
		t.Fatalf("%d places for the focus", all)
	}
	for next := 0; next < all; {
		b.do(t, chromedp.KeyEvent(kb.Tab))
		now := eval[struct{ At, Outline, Text string }](t, b, `(() => {
		  const e = document.activeElement; // lists that scroll have no number
		  return { At: e.dataset.walked ?? "", Outline: getComputedStyle(e).outlineStyle, Text: e.outerHTML };
		})()`)
		switch now.At {
		case fmt.Sprint(next):
			next++
		case "":
		default:
			t.Fatalf("behind place %d comes %q", next-1, now.Text)
		}
		if now.Outline != "solid" {
			t.Fatalf("the focus is not to be seen on %q", now.Text)
		}
	}
	isFocused := func(i int) bool {
		return eval[bool](t, b, fmt.Sprintf(`document.activeElement === document.querySelectorAll(".choices button")[%d]`, i))
	}
	b.do(t, chromedp.Focus(".choices button", chromedp.ByQuery))
	for _, step := range []struct {
		key string
		at  int
	}{{kb.ArrowDown, 1}, {kb.ArrowDown, 2}, {kb.ArrowUp, 1}, {kb.Home, 0}, {kb.ArrowUp, 0}, {kb.ArrowDown, 1}} {
		if b.do(t, chromedp.KeyEvent(step.key)); !isFocused(step.at) {
			t.Errorf("key %q does not lead to decision %d", step.key, step.at)
		}
	}
	b.do(t, chromedp.KeyEvent(kb.Enter))
	b.until(t, `!document.querySelector(".detail").hidden`)
	b.do(t, chromedp.KeyEvent(kb.Escape))
	if b.until(t, `document.querySelector(".detail").hidden`); !isFocused(1) {
		t.Error("the focus is lost when a decision is closed")
	}
}

// While the list of decisions is used it stays as it is, and says how many are newer.
func TestListHoldsStill(t *testing.T) {
	b, s := opened(t)
	frames := story(90)
	before := eval[string](t, b, `document.querySelector(".choices").innerText`)
	b.do(t, chromedp.Focus(".choices button", chromedp.ByQuery))
	show(t, s, frames[80])
	at(t, b, frames[80])
	if after := eval[string](t, b, `document.querySelector(".choices").innerText`); after != before {
		t.Errorf("the list has become %q", after)
	}
	if said := eval[string](t, b, `document.querySelector(".newer").innerText`); said != "3 newer: show" {
		t.Errorf("it says %q", said)
	}
	b.do(t, chromedp.Click(".newer"))
	if after := eval[string](t, b, `document.querySelector(".choices").innerText`); after == before {
		t.Error("newer ones are not shown")
	}
}

func TestPause(t *testing.T) {
	b, s := opened(t)
	frames := story(90)
	b.do(t, chromedp.Click(`//button[text()="Pause"]`))
	before := eval[string](t, b, `document.querySelector("main").innerText`)
	show(t, s, frames[80])
	b.until(t, `document.querySelector(".state").innerText.includes("02:14:40")`)
	if after := eval[string](t, b, `document.querySelector("main").innerText`); after != before {
		t.Error("the page has changed")
	}
	b.do(t, chromedp.Click("#language"))
	if got := eval[int](t, b, `document.querySelectorAll("tr.lane, figure, .choices li").length`); got < 18 {
		t.Errorf("in another language it is empty: %d rows", got)
	}
	b.do(t, chromedp.Click("#language"))
	b.do(t, chromedp.Click(`//button[text()="Pause"]`))
	at(t, b, frames[80])
}

func TestNarrow(t *testing.T) {
	b, _ := opened(t)
	for _, width := range []int64{360, 768, 1024} {
		b.do(t, emulation.SetDeviceMetricsOverride(width, 740, 2, width == 360))
		openDecision(t, b)
		got := eval[int64](t, b, `Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)`)
		if got > width {
			t.Errorf("on %d pixels it is %d wide", width, got)
		}
		cut := eval[[]string](t, b, `[...document.querySelectorAll("main *")].filter((e) => {
		  const box = e.getBoundingClientRect();
		  return box.width && box.right > innerWidth + 1 && !e.closest(".scrolls, .track, .plot, pre");
		}).map((e) => e.outerHTML.slice(0, 200))`)
		if len(cut) > 0 {
			t.Errorf("on %d pixels are cut: %q", width, cut)
		}
	}
}

// Those who ask for less motion see numbers alone.
func TestReducedMotion(t *testing.T) {
	b, s := opened(t)
	b.do(t, emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		{Name: "prefers-reduced-motion", Value: "reduce"},
	}))
	frame := story(90)[80]
	show(t, s, frame)
	at(t, b, frame)
	got := eval[[]int](t, b, `[document.querySelectorAll(".mark:not(.gone)").length, document.getAnimations().length,
	  [...document.querySelectorAll(".track, #key")].filter((e) => e.checkVisibility()).length,
	  document.querySelectorAll("tr.lane .engine").length]`)
	if fmt.Sprint(got) != "[0 0 0 18]" {
		t.Errorf("marks, animations, tracks, numbers: %v", got)
	}
}

func TestChinese(t *testing.T) {
	b, _ := opened(t, chromedp.Flag("accept-lang", "zh-CN,zh,en"))
	openDecision(t, b)
	body := func() string { return eval[string](t, b, `document.documentElement.lang + document.body.innerText`) }
	got := body()
	for _, want := range []string{"zh-CN", "最近的决策", "首 token 时间（毫秒）", "以 ", " 的优势胜出", "无应答"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	for _, foreign := range []string{"Latest decisions", "In flight", "undefined", "{"} {
		if strings.Contains(got, foreign) {
			t.Errorf("%q is on the page", foreign)
		}
	}
	b.do(t, chromedp.Click("#language"))
	if got := body(); !strings.HasPrefix(got, "en") || !strings.Contains(got, "Latest decisions") ||
		!strings.Contains(got, " won by ") || strings.Contains(got, "最近的决策") {
		t.Errorf("in English it is %q", got)
	}
}

// Numbers are written as the reader writes them, whatever the language is.
func TestLocale(t *testing.T) {
	b, _ := opened(t, chromedp.Flag("accept-lang", "de-DE"))
	got := eval[string](t, b, `document.querySelector("[data-figure=ttftFigure]").innerText`)
	if !regexp.MustCompile(`/ \d\.\d{3} ms$`).MatchString(got) {
		t.Errorf("the time to first token is %q", got)
	}
}
