package page

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	livepage "github.com/warmgate/warmgate/internal/live/page"
)

var (
	demo = flag.String("demo", "", "demo.html as make demo has written it: the pictures of the README are made of it")
	when = flag.Int("when", 20, "second of the demo that they show")
)

// TestPictures writes pictures of the page in both themes to build/out, to be looked at, or of a demo to docs.
func TestPictures(t *testing.T) {
	folder := "../../build/out"
	if *demo != "" {
		folder = "../../docs"
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	b := open(t)
	b.do(t, emulation.SetDeviceMetricsOverride(1280, 1130, 1, false))
	if *demo != "" {
		b.do(t, chromedp.Navigate("file://"+*demo), chromedp.Click(`//button[text()="Pause"]`))
		b.seek(t, *when)
	} else {
		frames := story(90)
		s, url := serve(t, livepage.Facts{Title: "Three policies side by side"})
		show(t, s, frames[:86]...)
		b.do(t, chromedp.Navigate(url))
		at(t, b, frames[85])
		show(t, s, frames[86])
		at(t, b, frames[86])
	}
	sizes := 0
	for _, theme := range []string{"light", "dark"} {
		b.do(t, chromedp.Click("#theme"))
		picture := b.picture(t, theme)
		if err := os.WriteFile(filepath.Join(folder, "ui-"+theme+".webp"), picture, 0o644); err != nil {
			t.Fatal(err)
		}
		sizes += len(picture)
	}
	if sizes > 300<<10 || sizes < 30<<10 {
		t.Errorf("the pictures have %d bytes", sizes)
	}
}

// picture returns what the page looks like down to its plots, when nothing moves.
func (b browser) picture(t *testing.T, theme string) (picture []byte) {
	t.Helper()
	b.until(t, `document.documentElement.dataset.theme === "`+theme+`" && document.getAnimations().length === 0 &&
	  !document.querySelector(".gone")`)
	b.do(t, chromedp.Evaluate(`document.activeElement.blur(); scrollTo(0, 0)`, nil))
	height := eval[float64](t, b, `document.querySelector("figure").getBoundingClientRect().bottom + 14`)
	b.do(t, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		picture, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatWebp).WithQuality(85).
			WithCaptureBeyondViewport(true).WithClip(&page.Viewport{Width: 1280, Height: height, Scale: 1}).Do(ctx)
		return err
	}))
	return picture
}

// seek goes to a frame of a record.
func (b browser) seek(t *testing.T, frame int) {
	t.Helper()
	b.do(t, chromedp.SetValue(".player input", fmt.Sprint(frame)), chromedp.Evaluate(
		`document.querySelector(".player input").dispatchEvent(new Event("input"))`, nil))
}
