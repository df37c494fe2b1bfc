package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// Names of the contenders in the last line of the output.
const (
	pendingName     = "pending"
	outstandingName = "outstanding"
	blindName       = "blind"
	breakersName    = "circuit_breakers"
	admissionName   = "admission_control"
)

// contender is one way to deal with more than can be served.
type contender struct {
	name     string
	policy   compare.Policy
	timeouts bool // clients tell Envoy their deadlines as timeouts
}

func (c contender) title() string { return c.name }

// contenders returns all, in the order of the table.
func contenders() []contender {
	return []contender{
		own(pendingName, `"push":"pending",`+queue, `,"metrics_cluster":"warmgate-metrics"`),
		own(outstandingName, fmt.Sprintf(`"push":"outstanding","max_inflight":%d,`, slots)+queue, ""),
		own(blindName, "", ""),
		{name: breakersName, policy: breakers},
		{name: admissionName, policy: admission, timeouts: true},
	}
}

// queue is how requests wait. Who waits for longer than that cannot be answered within any deadline.
var queue = `"queue":{"max_wait":"4s","order":"strict","class_header":"` + strings.ToLower(classHeader) +
	`","default_class":"batch","deadline_header":"` + strings.ToLower(deadlineHeader) + `","classes":{"` + critical +
	`":{"weight":16,"reserved":0.1},"interactive":4,"batch":1}},`

// own is Warmgate with more settings, and more ways to what it needs.
func own(name, more, clusters string) contender {
	return contender{name: name, policy: compare.Policy{
		Name: name, Cluster: harness.Warmgate,
		Plugin: `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{` + more +
			`"envoy":{"admin_cluster":"warmgate-admin"` + clusters + `},"debug_headers":true}}`,
	}}
}

var breakers = compare.Policy{
	Name: breakersName, Cluster: harness.LeastRequest,
	About: fmt.Sprintf("Envoy's least_request with circuit breakers: max_requests %d, the slots of all servers; "+
		"no plugin", servers*slots),
	Edits: `clusters.yaml: {"resources[name=llm].circuit_breakers.thresholds": [{max_connections: 65536,
  max_pending_requests: 65536, max_requests: ` + strconv.Itoa(servers*slots) + `,
  retry_budget: {budget_percent: {value: 20}, min_retry_concurrency: 10}}]}`,
}

const admissionType = "type.googleapis.com/envoy.extensions.filters.http.admission_control.v3.AdmissionControl"

// admission rejects by the share of requests that succeed. By its defaults, a window of 30 s and at most 80 % rejected,
// it could do little in runs of this length and at ten times the capacity.
var admission = compare.Policy{
	Name: admissionName, Cluster: harness.LeastRequest,
	About: "Envoy's least_request behind its admission_control filter: sampling_window 3 s, sr_threshold 95 %, " +
		"aggression 1, max_rejection_probability 99 %; an answer is timed out, which counts as a failure, when its " +
		"client's deadline has passed; no plugin",
	Edits: `warmgate.yaml: {"resources[name=warmgate].typed_config": {"@type": ` + admissionType + `,
  enabled: {default_value: true, runtime_key: admission.enabled}, sampling_window: 3s,
  success_criteria: {http_criteria: {http_success_status: [{start: 100, end: 500}]}},
  aggression: {default_value: 1.0, runtime_key: admission.aggression},
  sr_threshold: {default_value: {value: 95.0}, runtime_key: admission.threshold},
  max_rejection_probability: {default_value: {value: 99.0}, runtime_key: admission.probability}}}`,
}

// prepared is what the gateway starts with. It lets the filter for admission control take the plugin's place later, and
// counts the clients as internal: so the ids of their requests, by which retries are known, and their timeouts hold.
var prepared = compare.Policy{
	Name: compare.RoundRobin.Name, Cluster: harness.RoundRobin,
	Edits: `envoy.yaml: {
  "` + harness.ManagerPath + `.http_filters[name=warmgate].config_discovery.type_urls": [
    type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm,
    type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation, ` + admissionType + `],
  "` + harness.ManagerPath + `.internal_address_config": {cidr_ranges: [{address_prefix: 127.0.0.0, prefix_len: 8}]}}`,
}

// play sends the calls through the stage's gateway, which has the contender's policy, to servers that are idle.
func (c *contender) play(ctx context.Context, stage *compare.Stage, s settings, calls []call) (result, error) {
	client := loadgen.NewClient(loadgen.Options{
		URL: stage.Gateway.URL() + compare.Path, Timeout: time.Minute, Connections: 8192,
		KeepHeaders: append([]string{waitHeader, retryHeader}, compare.DebugHeaders...),
	})
	defer client.Close()
	if err := awaitIdle(ctx, stage); err != nil {
		return result{}, err
	}
	for _, srv := range stage.Servers {
		srv.Reset()
	}
	p := player{client: client, timeouts: c.timeouts}
	var outcomes []outcome
	used, err := bench.Use(stage.Gateways, func() { outcomes = p.play(ctx, calls) })
	if err != nil {
		return result{}, err
	}
	r := resultOf(outcomes, s.warm, s.span)
	r.cpu = used
	var attempts []loadgen.Sample
	for i := range outcomes {
		attempts = append(attempts, outcomes[i].attempts...)
	}
	return r, cmp.Or(ctx.Err(), c.policy.Steered(attempts))
}
