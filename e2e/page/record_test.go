package page

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	livepage "github.com/warmgate/warmgate/internal/live/page"
)

// record writes a record of a story and returns the address of the file.
func record(t *testing.T, seconds int) string {
	t.Helper()
	var text bytes.Buffer
	facts := livepage.Facts{Title: "A record", About: []string{"of a story"}}
	if err := livepage.Record(&text, story(seconds), facts); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "record.html")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file://" + path
}

// A record plays by itself, goes to any time, and needs nothing but its file.
func TestRecord(t *testing.T) {
	frames := story(60)
	url := record(t, 60)
	b := open(t)
	var asked []string
	chromedp.ListenTarget(b.ctx, func(event any) {
		if e, ok := event.(*network.EventRequestWillBeSent); ok && e.Request.URL != url && e.Request.URL != "data:," {
			asked = append(asked, e.Request.URL)
		}
	})
	b.do(t, network.Enable(), chromedp.Navigate(url))
	// Frames go on by the clock, so that a busy machine may miss some.
	plays := func(from int) {
		b.until(t, fmt.Sprintf(`((at) => at >= %d && at < %d)(Number(document.body.dataset.at))`,
			frames[from].AtMS, frames[59].AtMS))
	}
	plays(2)
	b.do(t, chromedp.Click(`//button[text()="Pause"]`))
	for _, i := range []int{45, 10, 59} {
		b.seek(t, i)
		at(t, b, frames[i])
		shows(t, eval[[]gatewayShown](t, b, readPage), frames[i])
	}
	if changes := eval[int](t, b, `document.querySelectorAll(".changes li").length`); changes != 7 {
		t.Errorf("%d changes", changes)
	}
	b.do(t, chromedp.Click(`//button[text()="Play"]`)) // from the end it begins again
	plays(1)
	b.do(t, chromedp.Click("#language"))
	plays(2)
	if got := eval[string](t, b, `document.querySelector(".player button").innerText`); got != "暂停" {
		t.Errorf("after a change of the language the button says %q", got)
	}
	if len(asked) > 0 {
		t.Errorf("it asks for %q", asked)
	}
}

// Who asks for less motion sees how a record ends, and plays it on demand.
func TestStillRecord(t *testing.T) {
	frames := story(30)
	b := open(t)
	b.do(t, emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		{Name: "prefers-reduced-motion", Value: "reduce"},
	}), chromedp.Navigate(record(t, 30)))
	at(t, b, frames[29])
	if got := eval[string](t, b, `document.querySelector(".player button").innerText`); got != "Play" {
		t.Errorf("the button says %q", got)
	}
}
