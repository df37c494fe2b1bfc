package metrics_test

import (
	"fmt"

	"github.com/warmgate/warmgate/metrics"
)

// A parser recognizes the engine by the names of its metrics.
func ExampleParser() {
	page := []byte(`# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 3
vllm:num_requests_waiting{model_name="m"} 1
my_gauge 0.5
`)
	parser, err := metrics.New(metrics.AnyEngine, "my_gauge")
	if err != nil {
		panic(err)
	}
	var s metrics.Snapshot
	parser.Parse(page, &s)
	running, _ := s.Value(metrics.Running)
	gauge, _ := s.Value(metrics.Target(0))
	fmt.Println(s.Engine, running, gauge)
	fmt.Println("missing:", parser.Missing(&s, metrics.Waiting, metrics.KVUse))
	// Output:
	// vllm 3 0.5
	// missing: [vllm:kv_cache_usage_perc]
}

// A load report contains a few fields only.
func ExampleParseORCA() {
	var s metrics.Snapshot
	ok := metrics.ParseORCA([]byte("TEXT named_metrics.num_requests_waiting=2"), &s)
	waiting, _ := s.Value(metrics.Waiting)
	fmt.Println(ok, waiting)
	// Output:
	// true 2
}
