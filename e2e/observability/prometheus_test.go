package observability

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/fleet"
	"github.com/warmgate/warmgate/e2e/harness"
)

// prometheus is a running Prometheus that scrapes a gateway once a second, with the shipped rules.
type prometheus struct {
	t   *testing.T
	url string
}

var (
	windows = regexp.MustCompile(`\[\d+m\]`)
	waits   = regexp.MustCompile(`(?m)^( +for:) .*$`)
)

// hastened are rules that look back for a window of seconds, and wait for one.
func hastened(text, window string) string {
	text = windows.ReplaceAllString(text, "["+window+"]")
	text = strings.ReplaceAll(text, "offset 15m", "offset "+window)
	return waits.ReplaceAllString(text, "$1 1s")
}

// startPrometheus runs it until the test ends.
func startPrometheus(t *testing.T, g *harness.Gateway, window string) *prometheus {
	t.Helper()
	files := map[string]string{}
	for _, name := range []string{"rules.yaml", "alerts.yaml"} {
		files[name] = hastened(string(harness.ReadT(t, folder+name)), window)
	}
	const global = "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yaml, alerts.yaml]"
	p := &prometheus{t: t, url: fleet.PrometheusT(t, g, global, files)}
	harness.Await(t, func() error {
		if len(p.query("rate(warmgate_config_valid[3s])")) == 0 {
			return fmt.Errorf("nothing was scraped: %v", p.query("up"))
		}
		return nil
	})
	return p
}

// get reads an answer of its API.
func (p *prometheus) get(path string, into any) error {
	ctx, cancel := context.WithTimeout(p.t.Context(), harness.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d: %s, %v", path, resp.StatusCode, text, err)
	}
	return json.Unmarshal(text, into)
}

// sample is one of the result of a query.
type sample struct {
	Metric map[string]string
	Value  [2]any
}

// query evaluates an expression now.
func (p *prometheus) query(expr string) (list []sample) {
	p.t.Helper()
	var answer struct {
		Data struct{ Result []sample }
	}
	if err := p.get("/api/v1/query?query="+url.QueryEscape(expr), &answer); err != nil {
		p.t.Fatalf("%s: %v", expr, err)
	}
	return answer.Data.Result
}

// active is an alert that is pending or fires.
type active struct {
	State               string
	Labels, Annotations map[string]string
}

// firing returns the alerts that fire.
func (p *prometheus) firing() (list []active) {
	p.t.Helper()
	var answer struct{ Data struct{ Alerts []active } }
	if err := p.get("/api/v1/alerts", &answer); err != nil {
		p.t.Fatal(err)
	}
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			list = append(list, a)
		}
		for name, text := range a.Annotations {
			if text == "" || strings.Contains(text, "error expanding") || strings.Contains(text, "<no value>") {
				p.t.Errorf("%v: %s is %q", a.Labels, name, text)
			}
		}
	}
	return list
}

// find returns the alert of a name that fires with labels.
func find(list []active, name string, labels map[string]string) *active {
	for i, a := range list {
		fits := a.Labels["alertname"] == name
		for k, v := range labels {
			fits = fits && a.Labels[k] == v
		}
		if fits {
			return &list[i]
		}
	}
	return nil
}

// names are those of alerts.
func names(list []active) []string {
	var found []string
	for _, a := range list {
		found = append(found, fmt.Sprint(a.Labels))
	}
	slices.Sort(found)
	return found
}

// calm waits until no alert fires, and sees that this lasts.
func (p *prometheus) calm(lasts time.Duration) {
	p.t.Helper()
	harness.Await(p.t, func() error {
		if list := p.firing(); len(list) > 0 {
			return fmt.Errorf("without a fault there are %q", names(list))
		}
		return nil
	})
	for range lasts / time.Second {
		time.Sleep(time.Second)
		if list := p.firing(); len(list) > 0 {
			p.t.Errorf("without a fault there are %q", names(list))
			return
		}
	}
}

// healthy checks that each rule can be evaluated.
func (p *prometheus) healthy() {
	p.t.Helper()
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if err := p.get("/api/v1/rules", &answer); err != nil {
		p.t.Fatal(err)
	}
	n := 0
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			if n++; r.Health != "ok" {
				p.t.Errorf("%s: %s %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if n < 100 {
		p.t.Errorf("there are %d rules", n)
	}
}
