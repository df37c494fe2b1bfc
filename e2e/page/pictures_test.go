package page

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	livepage "github.com/warmgate/warmgate/internal/live/page"
)

var update = flag.Bool("update", false, "write the pictures of the documents")

// TestPictures writes pictures of the page in both themes to build/out, to be looked at, and with -update to docs.
func TestPictures(t *testing.T) {
	folder := "../../build/out"
	if *update {
		folder = "../../docs"
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	frames := story(90)
	s, url := serve(t, livepage.Facts{Title: "Three policies side by side"})
	show(t, s, frames[:86]...)
	b := open(t)
	b.do(t, emulation.SetDeviceMetricsOverride(1280, 1130, 1, false), chromedp.Navigate(url))
	at(t, b, frames[85])
	show(t, s, frames[86])
	at(t, b, frames[86])
	sizes := 0
	for _, theme := range []string{"light", "dark"} {
		var picture []byte
		b.do(t, chromedp.Click("#theme"))
		b.until(t, `document.documentElement.dataset.theme === "`+theme+`" && document.getAnimations().length === 0 &&
		  !document.querySelector(".gone")`)
		b.do(t, chromedp.Evaluate(`document.activeElement.blur(); scrollTo(0, 0)`, nil))
		height := eval[float64](t, b, `document.querySelector("figure").getBoundingClientRect().bottom + 14`)
		b.do(t, chromedp.ActionFunc(func(ctx context.Context) (err error) {
			picture, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatWebp).WithQuality(85).
				WithClip(&page.Viewport{Width: 1280, Height: height, Scale: 1}).Do(ctx)
			return err
		}))
		if err := os.WriteFile(filepath.Join(folder, "ui-"+theme+".webp"), picture, 0o644); err != nil {
			t.Fatal(err)
		}
		sizes += len(picture)
	}
	if sizes > 300<<10 || sizes < 30<<10 {
		t.Errorf("the pictures have %d bytes", sizes)
	}
}
