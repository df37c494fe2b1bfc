package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/warmgate/warmgate/e2e/harness"
)

const dashboards = "deploy/observability/grafana/"

// serveBoard serves a page that draws a dashboard by what a Prometheus answers.
func serveBoard(t *testing.T, name string, prometheus http.Handler) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir("boards")))
	for _, file := range []string{"uPlot.iife.min.js", "uPlot.min.css"} {
		mux.HandleFunc("/"+file, func(w http.ResponseWriter, r *http.Request) {
			http.ServeFile(w, r, harness.PathT(t, "internal/live/page/web/"+file))
		})
	}
	mux.HandleFunc("/board.json", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, harness.PathT(t, dashboards+name+".json"))
	})
	mux.HandleFunc("/favicon.ico", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("/api/", prometheus)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// twoOfEach answers each query with two series.
func twoOfEach(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.ParseInt(r.FormValue("start"), 10, 64)
	var result []any
	for i := range 2 {
		values := [][]any{}
		for second := range 5 {
			values = append(values, []any{from + int64(second), fmt.Sprint(i + second)})
		}
		result = append(result, map[string]any{
			"metric": map[string]string{"endpoint": fmt.Sprintf("10.0.0.%d:8000", i+1), "cause": "auth"},
			"value":  []any{from, fmt.Sprint(i)}, "values": values,
		})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"result": result}})
}

// TestBoards draws each dashboard by what a Prometheus might answer: each panel has something in it.
func TestBoards(t *testing.T) {
	files, err := filepath.Glob(harness.PathT(t, dashboards+"*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d dashboards, %v", len(files), err)
	}
	b := open(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		b.do(t, chromedp.Navigate(serveBoard(t, name, http.HandlerFunc(twoOfEach))+"/?last=20"))
		b.until(t, `document.body.dataset.drawn > 0`)
		empty := eval[[]string](t, b, `[...document.querySelectorAll("section")].filter(
		  (panel) => !panel.querySelector("canvas, .tile, .number")).map((panel) => panel.textContent)`)
		if len(empty) > 0 {
			t.Errorf("%s: nothing in %q", name, empty)
		}
		if overlap := eval[bool](t, b, `[...document.querySelectorAll("section")].some((one, i, all) => {
		  const a = one.getBoundingClientRect();
		  return all.slice(i + 1).some((other) => { const b = other.getBoundingClientRect();
		    return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom; }); })`); overlap {
			t.Errorf("%s: panels overlap", name)
		}
	}
}

// pictureOfBoard returns what a dashboard looks like.
func (b browser) pictureOfBoard(t *testing.T, url string, width int64) (picture []byte) {
	t.Helper()
	b.do(t, emulation.SetDeviceMetricsOverride(width, 900, 1, false), chromedp.Navigate(url))
	b.until(t, `document.body.dataset.drawn > 0`)
	height := eval[float64](t, b, `document.querySelector("main").getBoundingClientRect().bottom + 12`)
	b.do(t, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		picture, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatWebp).WithQuality(80).
			WithCaptureBeyondViewport(true).
			WithClip(&page.Viewport{Width: float64(width), Height: height, Scale: 1}).Do(ctx)
		return err
	}))
	return picture
}
