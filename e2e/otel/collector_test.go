package otel

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/transformprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/prometheusreceiver"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// shipped is the collector's configuration.
const shipped = "deploy/observability/otel-collector.yaml"

// backend is where the collector sends what it has: it keeps all of it.
type backend struct {
	mu      sync.Mutex
	spans   []ptrace.Span
	metrics pmetric.Metrics // the latest
}

// ServeHTTP takes an export by OTLP.
func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	text, err := io.ReadAll(body)
	if err == nil {
		err = b.take(r.URL.Path, text)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func (b *backend) take(path string, text []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch path {
	case "/v1/traces":
		request := ptraceotlp.NewExportRequest()
		if err := request.UnmarshalProto(text); err != nil {
			return err
		}
		for _, resource := range request.Traces().ResourceSpans().All() {
			for _, scope := range resource.ScopeSpans().All() {
				for _, span := range scope.Spans().All() {
					b.spans = append(b.spans, span)
				}
			}
		}
	case "/v1/metrics":
		request := pmetricotlp.NewExportRequest()
		if err := request.UnmarshalProto(text); err != nil {
			return err
		}
		b.metrics = request.Metrics()
	default:
		return fmt.Errorf("an export to %s", path)
	}
	return nil
}

// collector is one that runs with the shipped configuration.
type collector struct {
	*backend
	grpc string // where it takes spans
}

// startCollector runs a collector that scrapes the gateway, until the test ends.
func startCollector(t *testing.T, gateway string) *collector {
	t.Helper()
	c := &collector{backend: &backend{}, grpc: "127.0.0.1:" + harness.FreePortT(t)}
	server := httptest.NewServer(c.backend)
	t.Cleanup(server.Close)
	t.Setenv("OTLP_ENDPOINT", server.URL)
	t.Setenv("GATEWAY", gateway)
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(harness.ReadT(t, shipped)), &doc); err != nil {
		t.Fatal(err)
	}
	for path, value := range map[string]any{
		"receivers.otlp.protocols.grpc.endpoint":                        c.grpc,
		"receivers.prometheus.config.scrape_configs[0].scrape_interval": "200ms",
		// Its own statistics have a port.
		"service.telemetry": map[string]map[string]string{"metrics": {"level": "none"}, "logs": {"level": "error"}},
	} {
		if err := harness.Set(&doc, path, value); err != nil {
			t.Fatal(err)
		}
	}
	text, err := yaml.Marshal(&doc)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "collector.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, file)
	return c
}

// run runs a collector by a file.
func run(t *testing.T, file string) {
	t.Helper()
	made, err := otelcol.NewCollector(otelcol.CollectorSettings{
		Factories: factories, BuildInfo: component.NewDefaultBuildInfo(), DisableGracefulShutdown: true,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs:              []string{"file:" + file},
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory(), envprovider.NewFactory()},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- made.Run(context.Background()) }()
	t.Cleanup(func() {
		made.Shutdown()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	harness.Await(t, func() error {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the collector has ended: %v", err)
		default:
		}
		if state := made.GetState(); state != otelcol.StateRunning {
			return fmt.Errorf("the collector is %s", state)
		}
		return nil
	})
}

// factories are those of the components that the shipped configuration names.
func factories() (f otelcol.Factories, err error) {
	if f.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](
		otlpreceiver.NewFactory(), prometheusreceiver.NewFactory(),
	); err != nil {
		return f, err
	}
	if f.Processors, err = otelcol.MakeFactoryMap[processor.Factory](transformprocessor.NewFactory()); err != nil {
		return f, err
	}
	f.Telemetry = otelconftelemetry.NewFactory()
	f.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](otlphttpexporter.NewFactory())
	return f, err
}
