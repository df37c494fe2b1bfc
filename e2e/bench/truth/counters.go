package truth

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/wait"
)

// page is a gateway's statistics as Prometheus reads them: values by name and labels.
type page map[string]float64

// readPage reads the plugin's statistics, once nothing that is over is still to be counted: twice the same, a second
// apart.
func (st *stage) readPage(ctx context.Context) (page, error) {
	last := ""
	for range 30 {
		text, err := st.gateway.Prometheus(ctx)
		if err != nil {
			return nil, err
		}
		counted := only(text, "warmgate_requests_total", "warmgate_tokens_total")
		if text != "" && counted == last {
			return parsePage(text), nil
		}
		last = counted
		if err := wait.For(ctx, 1100*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("the statistics still change")
}

// only returns the lines that begin with one of the names.
func only(text string, names ...string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		for _, name := range names {
			if strings.HasPrefix(line, name) {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

func parsePage(text string) page {
	p := page{}
	for line := range strings.Lines(text) {
		name, value, _ := cutLast(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil && strings.HasPrefix(name, "warmgate_") {
			p[name] = v
		}
	}
	return p
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// sum returns the sum of a statistic over what has all of the labels, each as in `model="x"`.
func (p page) sum(name string, labels ...string) (sum float64) {
	for series, v := range p {
		stat, rest, _ := strings.Cut(series, "{")
		matches := stat == name
		for _, l := range labels {
			matches = matches && (strings.Contains(rest, ","+l) || strings.HasPrefix(rest, l))
		}
		if matches {
			sum += v
		}
	}
	return sum
}

// counters returns how many statistics are not the sum of what the access log says. Histograms come later than
// counters, so what is not is read again.
func (st *stage) counters(ctx context.Context, lines map[string]*line) (int, error) {
	want := wanted(lines)
	for tries := 30; ; tries-- {
		p, err := st.readPage(ctx)
		if err != nil {
			return 0, err
		}
		if wrong := p.unlike(want); len(wrong) == 0 || tries == 0 {
			for _, w := range wrong {
				fmt.Println(w)
			}
			return len(wrong), nil
		}
	}
}

// wanted returns the sums of what the access log says, by statistic and one of its labels, "" for all of it.
func wanted(lines map[string]*line) map[[2]string]float64 {
	want := map[[2]string]float64{}
	for _, l := range lines {
		f := &l.Fields
		want[[2]string{"warmgate_requests_total", `outcome="` + f.Outcome + `"`}]++
		want[[2]string{"warmgate_request_duration_ms_count", `outcome="` + f.Outcome + `"`}]++
		if f.Usage != "" {
			usage := `usage="` + f.Usage + `"`
			want[[2]string{"warmgate_tokens_total", usage}] += f.Prompt + f.Output
		}
		want[[2]string{"warmgate_cost_nano_total", `currency="USD"`}] += f.Cost
		if f.TTFT > 0 {
			want[[2]string{"warmgate_ttft_ms_count", ""}]++
		}
	}
	return want
}

// unlike returns in words which statistics are not as wanted.
func (p page) unlike(want map[[2]string]float64) (wrong []string) {
	for key, n := range want {
		var labels []string
		if key[1] != "" {
			labels = []string{key[1]}
		}
		if got := p.sum(key[0], labels...); got != n {
			wrong = append(wrong, fmt.Sprintf("%s{%s} is %v, and %v by the access log", key[0], key[1], got, n))
		}
	}
	return wrong
}
