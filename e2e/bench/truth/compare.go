package truth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
)

// config is the plugin's: fields in the access log, and prices whose sums are no round numbers.
const config = `{"lb_policy":"prefix_cache","lb_config":{"envoy":{"admin_cluster":"warmgate-admin"},` + logged + `,
"prices":{"currency":"USD","tenant_header":"x-tenant","models":{
"llama-3-8b":{"input":0.15,"cached":0.075,"output":0.6},"qwen-*":{"input":"0.4375","output":1.31}}}}}`

// logged has the access log show fields.
const logged = `"telemetry":{"log":"fields"}`

// nano is what a token costs in billionths, by model: of the prompt, of that in the cache, of the answer.
var nano = map[string][3]float64{"llama-3-8b": {150, 75, 600}, "qwen-3-32b": {437.5, 437.5, 1310}}

// Errors is how far what the plugin has said of requests is from what is known.
type Errors struct {
	Requests   int     `json:"requests"`
	Missing    int     `json:"missing"`       // in the access log
	Outcomes   int     `json:"outcome_wrong"` // requests
	TTFT       float64 `json:"ttft_error_ms_p99"`
	Prefill    float64 `json:"prefill_error_ms_p99"`
	Duration   float64 `json:"duration_error_ms_p99"`
	Tokens     float64 `json:"tokens_error"`           // of answers with usage: share of the tokens
	OutputLeft float64 `json:"output_error_estimated"` // of answers without
	PromptLeft float64 `json:"prompt_error_estimated"`
	Cost       float64 `json:"cost_error"`        // with usage: share of the money
	CostLeft   float64 `json:"cost_error_broken"` // of answers that broke off: of what passed
	Counters   int     `json:"counters_wrong"`    // statistics that are not the sum of the access log
	CPU        float64 `json:"cpu"`               // share of the machine's that was used
}

// rows adds what was found to a table.
func (e *Errors) rows(t *bench.Table) {
	t.Add("requests, of them not in the access log", fmt.Sprintf("%d, %d", e.Requests, e.Missing))
	t.Add("outcomes that are wrong", strconv.Itoa(e.Outcomes))
	t.Add("TTFT, prefill, duration: error p99, ms", fmt.Sprintf("%.2f, %.2f, %.2f", e.TTFT, e.Prefill, e.Duration))
	t.Add("tokens, with usage", fmt.Sprintf("%.4f", e.Tokens))
	t.Add("tokens, estimated: of answers, of prompts", fmt.Sprintf("%.4f, %.4f", e.OutputLeft, e.PromptLeft))
	t.Add("cost, with usage, of what broke off", fmt.Sprintf("%.6f, %.4f", e.Cost, e.CostLeft))
	t.Add("statistics that are not the sum of the log", strconv.Itoa(e.Counters))
	t.Add("CPU of the machine in use", fmt.Sprintf("%.0f %%", 100*e.CPU))
}

// line is what the access log says of a request.
type line struct {
	ID     string `json:"id"`
	Fields struct {
		fields `json:"value"`
	} `json:"warmgate"`
}

// fields are those of plugin/measured.
type fields struct {
	Outcome  string  `json:"outcome"`
	Usage    string  `json:"usage"`
	TTFT     float64 `json:"ttft_ms"`
	Prefill  float64 `json:"prefill_ms"`
	Duration float64 `json:"duration_ms"`
	Prompt   float64 `json:"prompt_tokens"`
	Output   float64 `json:"output_tokens"`
	Cost     float64 `json:"cost_nano"`
}

// logFields has the gateway log the fields of each request, behind its id.
func logFields(file string, doc *yaml.Node) error {
	if file != "envoy.yaml" {
		return nil
	}
	var log yaml.Node
	if err := yaml.Unmarshal([]byte(`
- name: envoy.access_loggers.stdout
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog
    log_format:
      json_format: {id: "%REQ(`+idHeader+`)%", warmgate: "%FILTER_STATE(wasm.warmgate_fields:TYPED)%"}
`), &log); err != nil {
		return err
	}
	return harness.Set(doc, harness.ManagerPath+".access_log", log.Content[0])
}

// Compare plays a plan and compares.
func Compare(ctx context.Context, p Plan) (_ *Errors, err error) {
	list, err := p.requests()
	if err != nil {
		return nil, err
	}
	st, err := start(ctx, engine(), config)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	before, err := bench.ReadCPU()
	if err != nil {
		return nil, err
	}
	if err := st.play(ctx, list); err != nil {
		return nil, err
	}
	after, err := bench.ReadCPU()
	if err != nil {
		return nil, err
	}
	lines, err := st.lines(ctx, len(list))
	if err != nil {
		return nil, err
	}
	e := &Errors{Requests: len(list), CPU: after.Since(before)}
	e.compare(list, lines)
	e.Counters, err = st.counters(ctx, lines)
	return e, err
}

// lines returns what the access log says, by the ID of the request, once it has so many lines.
func (st *stage) lines(ctx context.Context, n int) (map[string]*line, error) {
	lines := map[string]*line{}
	for range 100 {
		clear(lines)
		for text := range strings.Lines(st.gateway.AccessLog()) {
			var l line
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				return nil, fmt.Errorf("access log: %w: %s", err, text)
			}
			lines[l.ID] = &l
		}
		if len(lines) >= n {
			break
		}
		if err := wait.For(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return lines, nil
}

// compare fills in what differs.
func (e *Errors) compare(list []request, lines map[string]*line) {
	var ttft, prefill, duration []float64
	var tokens, output, prompt, cost, costLeft share
	for i := range list {
		q := &list[i]
		l := lines[strconv.Itoa(i)]
		if l == nil {
			if q.reported || !q.sample.Left { // else its client has left before the gateway had it
				e.Missing++
			}
			continue
		}
		f, s := &l.Fields, &q.sample
		// A client may leave when the whole answer is on its way to it: then both are true.
		late := q.sample.Left && q.report.Whole && f.Outcome == "ok"
		if f.Outcome != q.outcome() && !late {
			e.Outcomes++
		}
		duration = append(duration, f.Duration-bench.MS(q.lasted()))
		if !q.reported {
			continue
		}
		if q.Stream && !q.report.First.IsZero() && f.TTFT > 0 {
			ttft = append(ttft, f.TTFT-bench.MS(q.report.First.Sub(q.sentAt)))
			prefill = append(prefill, f.Prefill-bench.MS(q.report.First.Sub(q.report.Arrived)))
		}
		price, money := nano[q.Model], f.Cost
		if f.Usage == "reported" {
			tokens.add(f.Prompt, float64(q.report.Prompt), float64(q.report.Prompt))
			tokens.add(f.Output, float64(q.report.Sent), float64(q.report.Sent))
			due := price[0]*float64(q.report.Prompt-q.report.Cached) + price[1]*float64(q.report.Cached) +
				price[2]*float64(q.report.Sent)
			cost.add(money, due-0.5, due+0.5)
			continue
		}
		if q.report.Sent == 0 {
			continue
		}
		low, high := float64(min(s.Tokens, q.report.Sent)), float64(q.report.Sent)
		if !q.Stream {
			low = high
		}
		output.add(f.Output, low, high)
		prompt.add(f.Prompt, float64(q.report.Prompt), float64(q.report.Prompt))
		asked := float64(q.report.Prompt)
		costLeft.add(money, price[1]*asked+price[2]*low, price[0]*asked+price[2]*high)
	}
	e.TTFT, e.Prefill, e.Duration = p99(ttft), p99(prefill), p99(duration)
	e.Tokens, e.OutputLeft, e.PromptLeft = tokens.of(), output.of(), prompt.of()
	e.Cost, e.CostLeft = cost.of(), costLeft.of()
}

// lasted returns how long the request has taken: until its client had all of it, or has left, or until its server has
// broken it off. Of that Envoy tells the client a second later (delayed_close_timeout).
func (q *request) lasted() time.Duration {
	if q.breaks && q.reported && !q.report.Whole && !q.sample.Left {
		return q.report.Last.Sub(q.sentAt)
	}
	return q.sample.Total - (q.sample.Sent - q.sample.Due)
}

// outcome returns how the request has ended by what its client knows.
func (q *request) outcome() string {
	switch s := &q.sample; {
	case s.Left:
		return "client_left"
	case s.Error != "" || q.breaks && !q.report.Whole:
		return "server_failed"
	}
	return "ok"
}

// share is a sum of errors over a sum of what is true.
type share struct{ wrong, all float64 }

// add adds what was said, of what is known to be between two numbers.
func (s *share) add(said, low, high float64) {
	s.wrong += max(0, low-said, said-high)
	s.all += high
}

func (s *share) of() float64 { return s.wrong / max(1, s.all) }

// p99 returns the 99th percentile of how large errors are, whichever way.
func p99(errs []float64) float64 {
	if len(errs) == 0 {
		return 0
	}
	slices.SortFunc(errs, func(a, b float64) int { return cmp.Compare(max(a, -a), max(b, -b)) })
	x := loadgen.Quantile(errs, 0.99)
	return max(x, -x)
}
