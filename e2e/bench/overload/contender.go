package overload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

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
	shippedName     = "shipped"
	breakersName    = "circuit_breakers"
	priorityName    = "priority_breakers"
	admissionName   = "admission_control"
	limitName       = "limit"
	limitBlindName  = "limit_without_lengths"
)

// Contender is one way to deal with more than can be served.
type Contender struct {
	Name     string
	Policy   compare.Policy
	timeouts bool // clients tell Envoy their deadlines as timeouts
	high     int  // number of classes, from the highest, on the route with Envoy's priority HIGH
	silent   bool // answers do not tell who chose the server
	limit    bool // plays in simulated time, see limit.go
	lengths  bool // and knows those of all answers
}

func (c Contender) title() string { return c.Name }

// contenders returns all, in the order of the table.
func contenders() []Contender {
	return []Contender{
		Pending(),
		own(outstandingName, fmt.Sprintf(`"push":"outstanding","max_inflight":%d,`, slots)+queue, ""),
		shipped(),
		own(blindName, "", ""),
		{Name: breakersName, Policy: breakers},
		PriorityBreakers(1, Slots),
		priorities(priorityName+" 1:16+24", 1, 16, Slots),
		{Name: admissionName, Policy: admission, timeouts: true},
		{Name: limitName, limit: true, lengths: true, Policy: compare.Policy{
			About: aboutLimit + "It knows the lengths of all answers: in a class the shortest goes first",
		}},
		{Name: limitBlindName, limit: true, Policy: compare.Policy{
			About: aboutLimit + "It knows their mean alone: in a class who came first goes first",
		}},
	}
}

// Pending is Warmgate that queues by class and deadline, and gives each server no more than it runs at once.
func Pending() Contender { return own(pendingName, `"push":"pending",`+queue, compare.ByMetrics) }

// PriorityBreakers is Envoy's least_request behind a circuit breaker for each of Envoy's two priorities: so many of the
// highest classes may take all [Slots], the others no more than normal. [Prepare] makes the route that it needs.
func PriorityBreakers(high, normal int) Contender {
	return priorities(priorityName, high, normal, Slots)
}

// queue is how requests wait. Who waits for longer than that cannot be answered within any deadline.
var queue = `"queue":{"max_wait":"4s","order":"strict","class_header":"` + strings.ToLower(classHeader) +
	`","default_class":"batch","deadline_header":"` + strings.ToLower(deadlineHeader) + `","classes":{"` + critical +
	`":{"weight":16,"reserved":0.1},"interactive":4,"batch":1}},`

// own is Warmgate with more settings, and more ways to what it needs.
func own(name, more, clusters string) Contender {
	return Contender{Name: name, Policy: compare.Plugin(name, "global_least_request", more, clusters)}
}

// shippedFile is a whole configuration for overload, which users copy.
const shippedFile = "envoy-config/warmgate-overload.yaml"

// shipped is Warmgate as that file has it, to the letter. It knows two classes and no deadlines.
func shipped() Contender {
	return Contender{Name: shippedName, silent: true, Policy: compare.Policy{
		Name: shippedName, Cluster: harness.Warmgate, Plugin: shippedConfig(),
		About: "Warmgate with the configuration of " + shippedFile + ", to the letter; it does not know deadlines, " +
			"and its two classes: critical calls are interactive ones there",
	}}
}

// shippedConfig returns the plugin's configuration in the file.
func shippedConfig() string {
	root, err := harness.Root()
	if err != nil {
		panic(err) // only outside of the source tree
	}
	text, err := os.ReadFile(filepath.Join(root, shippedFile))
	if err != nil {
		panic(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		panic(err)
	}
	node, err := harness.Find(&doc, "resources[name=warmgate].typed_config.config.configuration.value")
	if err != nil {
		panic(err)
	}
	return node.Value
}

var breakers = compare.Policy{
	Name: breakersName, Cluster: harness.LeastRequest,
	About: fmt.Sprintf("Envoy's least_request with circuit breakers: max_requests %d, the slots of all servers; "+
		"no plugin", Slots),
	Edits: thresholds(threshold("DEFAULT", Slots)),
}

// priorities is Envoy's least_request with circuit breakers for each of its two priorities. The highest classes have
// the priority HIGH.
func priorities(name string, high, normal, most int) Contender {
	var names []string
	for i := range high {
		names = append(names, classes[i].name)
	}
	return Contender{Name: name, high: high, Policy: compare.Policy{
		Name: name, Cluster: harness.LeastRequest,
		About: fmt.Sprintf("Envoy's least_request with circuit breakers by priority: max_requests %d for HIGH, which "+
			"a route gives to %s by a header, and %d for DEFAULT; no plugin", most, strings.Join(names, " and "),
			normal),
		Edits: thresholds(threshold("DEFAULT", normal), threshold("HIGH", most)),
	}}
}

// parsePriorities reads HIGH:DEFAULT+HIGH: how many classes have the priority HIGH, and the most requests of both.
func parsePriorities(text string) (Contender, error) {
	var high, normal, most int
	if n, err := fmt.Sscanf(text, "%d:%d+%d", &high, &normal, &most); n < 3 || high < 1 || high > len(classes) {
		return Contender{}, fmt.Errorf("%q is not CLASSES:DEFAULT+HIGH: %v", text, err)
	}
	return priorities(priorityName+" "+text, high, normal, most), nil
}

func thresholds(list ...string) string {
	return `clusters.yaml: {"resources[name=llm].circuit_breakers.thresholds": [` + strings.Join(list, ", ") + `]}`
}

func threshold(priority string, most int) string {
	return fmt.Sprintf(`{priority: %s, max_connections: 65536, max_pending_requests: 65536, max_requests: %d,
  retry_budget: {budget_percent: {value: 20}, min_retry_concurrency: 10}}`, priority, most)
}

// Prepare is for envoy.yaml of the stage, see [harness.OfFile]. It adds the route with the priority HIGH to the shipped
// one, for requests that ask for it in a header, and counts the clients as internal: so the ids of their requests, by
// which retries are known, and their timeouts hold.
func Prepare(doc *yaml.Node) error {
	const route = harness.RoutesPath + "[name=llm]"
	node, err := harness.Find(doc, route)
	if err != nil {
		return err
	}
	text, err := yaml.Marshal([]*yaml.Node{node})
	if err != nil {
		return err
	}
	if err := harness.Insert(doc, harness.RoutesPath, "llm", 1, string(text)); err != nil {
		return err
	}
	return errors.Join(
		harness.Set(doc, route+".name", "high"), // the first of the two
		harness.Set(doc, harness.RoutesPath+"[name=high].route.priority", "HIGH"),
		harness.Set(doc, harness.RoutesPath+"[name=high].match.headers",
			[]any{map[string]any{"name": priorityHeader, "string_match": map[string]any{"exact": "high"}}}),
		harness.Set(doc, harness.ManagerPath+".internal_address_config", map[string]any{
			"cidr_ranges": []any{map[string]any{"address_prefix": "127.0.0.0", "prefix_len": 8}},
		}),
	)
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

// prepared is what the gateway starts with. It lets the filter for admission control take the plugin's place later.
var prepared = compare.Policy{
	Name: shippedName, Cluster: harness.Warmgate, Plugin: shippedConfig(),
	Edits: `envoy.yaml: {
  "` + harness.ManagerPath + `.http_filters[name=warmgate].config_discovery.type_urls": [
    type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm,
    type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation, ` + admissionType + `]}`,
}

// Play sends the calls through the stage's gateway, which has the contender's policy, to servers that are idle. What is
// due, or answered, before the end of warm only warms up; what is in the span after it is measured.
func (c *Contender) Play(ctx context.Context, stage *compare.Stage, warm, span time.Duration, calls []Call) (
	Result, error,
) {
	if c.limit {
		return resultOf(foreseen(calls, c.lengths), warm, span), nil
	}
	client := loadgen.NewClient(loadgen.Options{
		URL: stage.Gateway.URL() + compare.Path, Timeout: time.Minute, Connections: 8192, Seen: stage.Seen,
		KeepHeaders: append([]string{waitHeader, retryHeader}, compare.DebugHeaders...),
	})
	defer client.Close()
	if err := prepareServers(ctx, stage); err != nil {
		return Result{}, err
	}
	p := player{client: client, timeouts: c.timeouts, high: c.high}
	var outcomes []outcome
	used, err := bench.Use(stage.Gateways, func() { outcomes = p.play(ctx, calls) })
	if err != nil {
		return Result{}, err
	}
	r := resultOf(outcomes, warm, span)
	r.cpu = used
	var attempts []loadgen.Sample
	for i := range outcomes {
		attempts = append(attempts, outcomes[i].attempts...)
	}
	if c.silent {
		return r, ctx.Err()
	}
	return r, cmp.Or(ctx.Err(), c.Policy.Steered(attempts))
}
