package compose

import (
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/dns"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

// example is the folder of the example.
const example = "examples/compose"

// project returns what Compose makes of the example. Its schema is checked by that.
func project(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{harness.PathT(t, example+"/compose.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	p, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCompose checks that what services read is there, and that they are of the versions that tests run.
func TestCompose(t *testing.T) {
	if _, err := harness.Wasm(t.Context(), harness.HostEnvoy); err != nil {
		t.Fatal(err)
	}
	p := project(t)
	for _, s := range p.Services {
		for _, v := range s.Volumes {
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s: %v", s.Name, err)
			}
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: other machines reach port %s", s.Name, port.Published)
			}
		}
	}
	text := p.Services["engine"].Build.DockerfileInline
	if !strings.Contains(text, "COPY warmgate-linux-$TARGETARCH ") {
		t.Errorf("engine: not the program that make programs builds for the image's platform:\n%s", text)
	}
	module := regexp.MustCompile(`github.com/prometheus/prometheus v0\.(\d)(\d\d)\.(\d+)`)
	of := module.FindSubmatch(harness.ReadT(t, "e2e/compose/go.mod")) // v0.316.0 is the library of v3.16.0
	for name, want := range map[string]string{
		"gateway":    "envoyproxy/envoy:v" + harness.DefaultVersion,
		"redis":      "valkey/" + strings.Replace(redisserver.Default, "-", ":", 1),
		"prometheus": fmt.Sprintf("prom/prometheus:v%s.%s.%s", of[1], of[2], of[3]),
	} {
		if got := p.Services[name].Image; got != want {
			t.Errorf("%s: image %s, want %s", name, got, want)
		}
	}
}

// scraped returns the targets of prometheus.yml by job, host:port.
func scraped(t *testing.T) map[string]string {
	t.Helper()
	c, err := config.LoadFile(harness.PathT(t, example+"/prometheus.yml"), false, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]string{}
	for _, job := range c.ScrapeConfigs {
		for _, by := range job.ServiceDiscoveryConfigs {
			switch by := by.(type) {
			case discovery.StaticConfig:
				targets[job.JobName] = string(by[0].Targets[0][model.AddressLabel])
			case *dns.SDConfig:
				targets[job.JobName] = fmt.Sprintf("%s:%d", by.Names[0], by.Port)
			}
		}
	}
	return targets
}

// TestGrafana checks that Grafana reads the dashboards, and asks Prometheus.
func TestGrafana(t *testing.T) {
	p := project(t)
	grafana := p.Services["grafana"]
	home := *grafana.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	inside := func(v types.ServiceVolumeConfig) bool { return v.Target == filepath.Dir(home) }
	i := slices.IndexFunc(grafana.Volumes, inside)
	if i < 0 {
		t.Fatalf("%s is in no volume", home)
	}
	if _, err := os.Stat(filepath.Join(grafana.Volumes[i].Source, filepath.Base(home))); err != nil {
		t.Error(err)
	}
	source := harness.ReadT(t, example+"/grafana/provisioning/datasources/prometheus.yaml")
	u, err := url.Parse(regexp.MustCompile(`http://[^"]+`).FindString(string(source)))
	if err != nil || p.Services[u.Hostname()].Name != "prometheus" || u.Port() != "9090" {
		t.Errorf("the source is %v, %v", u, err)
	}
}
