package envoygateway

import (
	"encoding/base64"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/child"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

// controlPlane is Envoy Gateway without Kubernetes: it reads resources from a folder, fetches the module, and serves
// the configuration of Envoy on its usual ports, 18000 and 18002. It would also run an Envoy, but in the place of that
// there is a program that writes down how it was started.
type controlPlane struct {
	dir  string
	log  string
	list []resource
}

// How Envoy Gateway finds the program: as a version of Envoy that was fetched before.
const (
	envoyVersion = "1.40.0"
	program      = "data/envoy-versions/" + envoyVersion + "/bin/envoy"
	instead      = "#!/bin/sh\nprintf '%s\\n---next---\\n' \"$@\" >\"$0.args.new\"\nmv \"$0.args.new\" \"$0.args\"\n" +
		"exec tail --pid=$PPID -f /dev/null\n"
)

// startControlPlane starts Envoy Gateway with resources, until the test ends. Its configuration is that of the
// document.
func startControlPlane(t *testing.T, dir string, list []resource) *controlPlane {
	t.Helper()
	p := &controlPlane{dir: dir, log: filepath.Join(dir, "envoy-gateway.log")}
	for _, port := range []string{"18000", "18002"} {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			t.Fatalf("Envoy Gateway serves at fixed ports, of which one is not free: %v", err)
		}
		l.Close()
	}
	binary := command(t, "envoy-gateway")
	certgen := exec.Command(binary, "certgen", "--local", "--config-home", p.path("config"))
	if out, err := certgen.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p.list = append(list, p.clientCertificate(t))
	p.apply(t)
	if err := os.WriteFile(p.path(program), []byte(instead), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, p.path("config.yaml"), []resource{p.config(t)})
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(binary, "server", "--config-path", p.path("config.yaml"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	process, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			text := p.logged()
			t.Logf("Envoy Gateway's log ends:\n%s", text[max(0, len(text)-6000):])
		}
	})
	return p
}

// apply hands the resources to Envoy Gateway, also once they have changed.
func (p *controlPlane) apply(t *testing.T) {
	t.Helper()
	write(t, p.path("next.yaml"), p.list)
	if err := os.Rename(p.path("next.yaml"), p.path("resources/all.yaml")); err != nil {
		t.Fatal(err)
	}
}

// path returns a path below the folder, and makes the folders that it needs.
func (p *controlPlane) path(name string) string {
	file := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		panic(err)
	}
	return file
}

func (p *controlPlane) logged() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// clientCertificate is what the installation of Envoy Gateway puts into a secret: by it Envoy fetches the module.
func (p *controlPlane) clientCertificate(t *testing.T) resource {
	t.Helper()
	data := map[string]any{}
	for _, name := range []string{"ca.crt", "tls.crt", "tls.key"} {
		text, err := os.ReadFile(p.path("config/certs/envoy/" + name))
		if err != nil {
			t.Fatal(err)
		}
		data[name] = base64.StdEncoding.EncodeToString(text)
	}
	return resource{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "data": data,
		"metadata": map[string]any{"name": "envoy", "namespace": "envoy-gateway-system"},
	}
}

const kindOfConfig = "kind: EnvoyGateway\n"

// config returns the configuration in the document, and how to run without Kubernetes.
func (p *controlPlane) config(t *testing.T) resource {
	t.Helper()
	config := parse(t, lab.Block(t, document, "yaml", kindOfConfig))[0]
	folders := map[string]any{}
	for key, name := range map[string]string{
		"configHome": "config", "dataHome": "data", "stateHome": "state", "runtimeDir": "run",
	} {
		folders[key] = filepath.Join(p.dir, name)
	}
	config["provider"] = map[string]any{"type": "Custom", "custom": map[string]any{
		"infrastructure": map[string]any{"type": "Host", "host": folders},
		"resource": map[string]any{
			"type": "File", "file": map[string]any{"paths": []string{p.path("resources")}},
		},
	}}
	config["telemetry"] = map[string]any{"metrics": map[string]any{"prometheus": map[string]any{"disable": true}}}
	port, err := strconv.Atoi(harness.FreePortT(t))
	if err != nil {
		t.Fatal(err)
	}
	config["admin"] = map[string]any{"address": map[string]any{"host": "127.0.0.1", "port": port}}
	at(t, config, "extensionApis").(map[string]any)["enableBackend"] = true // there are no services without Kubernetes
	return config
}

// envoyArgs waits until Envoy Gateway starts Envoy, and returns the arguments.
func (p *controlPlane) envoyArgs(t *testing.T) []string {
	t.Helper()
	var text []byte
	harness.Await(t, func() (err error) {
		text, err = os.ReadFile(p.path(program) + ".args")
		return err
	})
	return strings.Split(strings.TrimSuffix(string(text), "\n---next---\n"), "\n---next---\n")
}

// option returns what follows an option in arguments.
func option(t *testing.T, args []string, name string) string {
	t.Helper()
	at := slices.Index(args, name)
	if at < 0 || at+1 == len(args) {
		t.Fatalf("Envoy is started with %q, without %s", args, name)
	}
	return args[at+1]
}
