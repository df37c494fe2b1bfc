package otel

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/warmgate/warmgate/e2e/harness"
)

const (
	completions = "/v1/chat/completions"
	withSpans   = `{"lb_policy":"global_least_request","lb_config":{"unit":"tokens","debug_headers":true,"telemetry":{"spans":true},
		"envoy":{"admin_cluster":"warmgate-admin"}}}`
	manager = "static_resources.listeners[name=main].filter_chains[0].filters[0].typed_config"
	chunk   = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0," +
		"\"delta\":{\"content\":\"hi\"}}]}\n\n"
	usage = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{\"prompt_tokens\":9," +
		"\"completion_tokens\":5,\"total_tokens\":14,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n"
)

// thinking is how long the model takes for its first output.
const thinking = 50 * time.Millisecond

// model answers by the model that is asked for: with a stream, an error, or a stream without an end.
func model(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if strings.Contains(string(body), `"bad"`) {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	time.Sleep(thinking)
	io.WriteString(w, chunk)
	w.(http.Flusher).Flush()
	if strings.Contains(string(body), `"endless"`) {
		<-r.Context().Done()
		return
	}
	io.WriteString(w, strings.Repeat(chunk, 4)+usage+"data: [DONE]\n\n")
}

// traced starts a gateway with the shipped tracing that sends its spans to the collector.
func traced(t *testing.T, c *collector) *harness.Gateway {
	t.Helper()
	return harness.StartT(t, harness.Options{
		Workers: 1, Config: withSpans, Endpoints: []harness.Endpoint{harness.ServeT(t, http.HandlerFunc(model))},
		Edit: func(file string, doc *yaml.Node) error {
			if file != "envoy.yaml" {
				return nil
			}
			return addTracing(t, doc, c.grpc)
		},
	})
}

// addTracing puts the shipped file into the bootstrap, as it says, with the collector's address.
func addTracing(t *testing.T, bootstrap *yaml.Node, addr string) error {
	var file struct {
		Tracing  yaml.Node
		Clusters []yaml.Node
	}
	if err := yaml.Unmarshal([]byte(harness.ReadT(t, "envoy-config/tracing.yaml")), &file); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	at := map[string]any{"address": host, "port_value": number}
	cluster := yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{&file.Clusters[0]}}
	const socket = "load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address"
	if err := harness.Set(&cluster, socket, at); err != nil {
		return err
	}
	if err := harness.Set(bootstrap, manager+".tracing", &file.Tracing); err != nil {
		return err
	}
	clusters, err := harness.Find(bootstrap, "static_resources.clusters")
	if err != nil {
		return err
	}
	clusters.Content = append(clusters.Content, &file.Clusters[0])
	return nil
}

// spanOf waits for the span of the request of an agent.
func (b *backend) spanOf(t *testing.T, agent string) ptrace.Span {
	t.Helper()
	var found ptrace.Span
	harness.Await(t, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, span := range b.spans {
			if v, ok := span.Attributes().Get("user_agent"); ok && v.Str() == agent {
				found = span
				return nil
			}
		}
		return fmt.Errorf("no span of %s among %d", agent, len(b.spans))
	})
	return found
}

// checkSpan compares attributes with what is wanted, types included: nil for none.
func checkSpan(t *testing.T, span ptrace.Span, want map[string]any) {
	t.Helper()
	all := span.Attributes().AsRaw()
	for name, value := range want {
		got, ok := all[name]
		if value == nil && ok || value != nil && got != value {
			t.Errorf("%s is %v (%T), want %v (%T)", name, got, got, value, value)
		}
	}
	if t.Failed() {
		t.Logf("the span has %v", all)
	}
}

// TestGateway holds the attributes of spans as the shipped configuration makes them: of a stream, of a request that
// fails, and of one whose client leaves; and the metrics that the collector makes of the gateway's statistics.
func TestGateway(t *testing.T) {
	var running atomic.Pointer[harness.Gateway]
	c := startCollector(t, showing(t, func() string {
		if g := running.Load(); g != nil {
			if page, err := g.Prometheus(t.Context()); err == nil {
				return page
			}
		}
		return ""
	}))
	g := traced(t, c)
	running.Store(g)
	harness.Await(t, func() error { // the plugin learns of the endpoint at its first tick
		a := harness.Send(t, nil, http.MethodPost, g.URL()+completions, `{"model":"m","messages":[]}`)
		if a.Reason() != "chosen" {
			return fmt.Errorf("the reason is %s", a.Reason())
		}
		return nil
	})
	t.Run("stream", func(t *testing.T) { streamed(t, c, g) })
	t.Run("failure", func(t *testing.T) {
		const agent = "fails"
		harness.Send(t, nil, http.MethodPost, g.URL()+completions, `{"model":"bad","messages":[]}`, "user-agent: "+agent)
		span := c.spanOf(t, agent)
		checkSpan(t, span, map[string]any{
			"warmgate.outcome": "server_failed", "error.type": "500", "warmgate.reason": "chosen",
			"gen_ai.usage.output_tokens": nil, "warmgate.usage": nil,
			"gen_ai.response.time_to_first_chunk": nil, "http.status_code": "500",
		})
		if span.Status().Code() != ptrace.StatusCodeError {
			t.Errorf("its status is %s", span.Status().Code())
		}
	})
	t.Run("client leaves", func(t *testing.T) { left(t, c, g) })
	t.Run("metrics", func(t *testing.T) { counted(t, c) })
}

// counted holds what the collector has made of the statistics of these requests: TestMetrics has the forms.
func counted(t *testing.T, c *collector) {
	want := map[string]string{
		"gen_ai.server.request.duration": "s", "gen_ai.server.request.duration server_failed": "s",
		"gen_ai.server.request.duration client_left": "s", "gen_ai.server.time_to_first_token": "s",
		"gen_ai.client.token.usage input": "{token}", "gen_ai.client.token.usage output": "{token}",
	}
	harness.Await(t, func() error {
		got := c.genAI(t)
		for key, unit := range want {
			s := got[key]
			if s.count == 0 || s.unit != unit || s.attributes["warmgate.cluster"] != "llm" {
				return fmt.Errorf("%s is %v", key, s)
			}
		}
		return nil
	})
}

func streamed(t *testing.T, c *collector, g *harness.Gateway) {
	const agent = "streams"
	harness.Send(t, nil, http.MethodPost, g.URL()+completions+"?key=secret",
		`{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`, "user-agent: "+agent)
	span := c.spanOf(t, agent)
	endpoint, _ := span.Attributes().Get("warmgate.endpoint")
	host, port, err := net.SplitHostPort(endpoint.Str())
	if err != nil {
		t.Fatalf("warmgate.endpoint is %q: %v", endpoint.Str(), err)
	}
	number, _ := strconv.ParseInt(port, 10, 64)
	checkSpan(t, span, map[string]any{
		"gen_ai.provider.name": "vllm", "gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
		"gen_ai.usage.input_tokens": int64(9), "gen_ai.usage.output_tokens": int64(5),
		"gen_ai.usage.cache_read.input_tokens": int64(4), "gen_ai.usage.reasoning.output_tokens": int64(0),
		"server.address": host, "server.port": number, "error.type": nil,
		"warmgate.reason": "chosen", "warmgate.policy": "global_least_request", "warmgate.outcome": "ok",
		"warmgate.usage": "reported", "warmgate.class": nil, "http.url": g.URL() + completions,
	})
	first, ok := span.Attributes().Get("gen_ai.response.time_to_first_chunk")
	took := span.EndTimestamp().AsTime().Sub(span.StartTimestamp().AsTime()).Seconds()
	if !ok || first.Double() < thinking.Seconds() || first.Double() > took+0.001 {
		t.Errorf("time to first chunk %v of %g s", first.AsRaw(), took)
	}
	if text := fmt.Sprint(span.Attributes().AsRaw()); strings.Contains(text, "secret") {
		t.Errorf("the query is in the span: %s", text)
	}
}

func left(t *testing.T, c *collector, g *harness.Gateway) {
	const agent = "leaves"
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL()+completions,
		strings.NewReader(`{"model":"endless","stream":true,"messages":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("User-Agent", agent)
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, len(chunk))); err != nil {
		t.Fatal(err)
	}
	leave()
	span := c.spanOf(t, agent)
	checkSpan(t, span, map[string]any{
		"error.type": "downstream_remote_disconnect", "warmgate.reason": "chosen", "warmgate.outcome": nil,
		"gen_ai.request.model": "endless", "response_flags": "DC",
	})
	if v, ok := span.Attributes().Get("gen_ai.response.time_to_first_chunk"); !ok {
		t.Errorf("time to first chunk: %v", v)
	}
}

// TestTypes holds that the collector makes numbers of the texts that other gateways send, and completes Higress's.
func TestTypes(t *testing.T) {
	c := startCollector(t, showing(t, func() string { return "" }))
	conn, err := grpc.NewClient(c.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	traces := ptrace.NewTraces()
	sent := traces.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	for name, value := range map[string]string{
		"user_agent": "texts", "gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": "9",
		"gen_ai.usage.output_tokens": "5", "gen_ai.usage.cache_read.input_tokens": "4",
		"gen_ai.usage.reasoning.output_tokens": "0", "server.port": "8000", "warmgate.ttft_ms": "120",
		"warmgate.wait_ms": "20", "warmgate.match": "0.25", "warmgate.lost_by": "1.5",
	} {
		sent.Attributes().PutStr(name, value)
	}
	request := ptraceotlp.NewExportRequestFromTraces(traces)
	if _, err := ptraceotlp.NewGRPCClient(conn).Export(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	checkSpan(t, c.spanOf(t, "texts"), map[string]any{
		"gen_ai.usage.input_tokens": int64(9), "gen_ai.usage.output_tokens": int64(5),
		"gen_ai.usage.cache_read.input_tokens": int64(4), "gen_ai.usage.reasoning.output_tokens": int64(0),
		"server.port": int64(8000), "warmgate.ttft_ms": int64(120), "warmgate.wait_ms": int64(20),
		"warmgate.match": 0.25, "warmgate.lost_by": 1.5, "gen_ai.response.time_to_first_chunk": 0.12,
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "vllm", "user_agent": "texts",
	})
}
