package envoygateway

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

// imageOf returns the image in a list of resources.
func imageOf(t *testing.T, list []resource) map[string]any {
	t.Helper()
	return at(t, find(t, list, "EnvoyExtensionPolicy"), "spec", "wasm", 0, "code", "image").(map[string]any)
}

// pushed puts an image into the registry, and returns its name.
func pushed(t *testing.T, tag string, layers ...v1.Layer) string {
	t.Helper()
	ref, err := name.ParseReference(commands.registry + "/warmgate/bad:" + tag)
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layers...)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	return ref.Name()
}

// tooLarge pushes an image with a module that has, by the size in front of it, a byte more than Envoy Gateway takes.
func tooLarge(t *testing.T) string {
	t.Helper()
	var layer bytes.Buffer
	zipped := gzip.NewWriter(&layer)
	head := &tar.Header{Name: "plugin.wasm", Mode: 0o644, Size: 256<<20 + 1}
	if err := errors.Join(tar.NewWriter(zipped).WriteHeader(head), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return pushed(t, "large", static.NewLayer(layer.Bytes(), types.OCILayer))
}

// noModule pushes an image with 16 MiB that begin as a module does, which is all that Envoy Gateway looks at.
func noModule(t *testing.T) string {
	t.Helper()
	module := append([]byte("\x00asm\x01\x00\x00\x00"), make([]byte, 16<<20)...)
	return pushed(t, "invalid", static.NewLayer([]byte("{}"), "application/vnd.module.wasm.config.v1+json"),
		static.NewLayer(module, "application/vnd.module.wasm.content.layer.v1+wasm"))
}

// TestRegistryHangs changes the image, and a route, while the registry hangs: as the document says, the gateway goes on
// with what it has, and no change reaches it. When the fetch has failed, requests are balanced natively.
func TestRegistryHangs(t *testing.T) {
	installed(t)
	for name, registry := range map[string]*lab.Hanging{
		"silent": lab.Silent(t), "endless": lab.Endless(t, commands.images),
	} {
		t.Run(name, func(t *testing.T) {
			list, request := installed(t)
			gateway := controlled(t, harness.DefaultVersion, list)
			gateway.AwaitChosen(t)

			gateway.mark(t, list, "first")
			taken := gateway.until(t, "first")
			hang(t, list, registry)
			gateway.mark(t, list, "second")
			registry.Await(t, 1)
			gateway.Placed(t, 2*taken)
			if gateway.marked(t) != "first" {
				t.Error("a change reaches the gateway while Envoy Gateway waits")
			}
			registry.Leave()
			gateway.until(t, "second")
			const decisions = `^wasmcustom\.warmgate_decisions_total`
			harness.Await(t, func() error {
				before := gateway.Sum(t, decisions)
				gateway.Requested(t, request)
				if gateway.Sum(t, decisions) != before {
					return errors.New("the plugin still decides")
				}
				return nil
			})
		})
	}
}

// mark changes the route: its answers have a mark.
func (r *running) mark(t *testing.T, list []resource, mark string) {
	t.Helper()
	set(t, at(t, find(t, list, "HTTPRoute"), "spec", "rules", 0), []any{map[string]any{
		"type":                   "ResponseHeaderModifier",
		"responseHeaderModifier": map[string]any{"set": []any{map[string]any{"name": "x-mark", "value": mark}}},
	}}, "filters")
	r.plane.apply(t)
}

// marked sends a request, and returns the mark of its answer.
func (r *running) marked(t *testing.T) string {
	t.Helper()
	return harness.Send(t, nil, http.MethodGet, r.URL+"/v1/models", "").Header.Get("x-mark")
}

// until sends requests until an answer has a mark, and returns how many.
func (r *running) until(t *testing.T, mark string) (sent int) {
	t.Helper()
	for sent = 1; r.marked(t) != mark; sent++ {
		if sent == 1<<20 {
			t.Fatalf("%d answers without the mark %s", sent, mark)
		}
	}
	return sent
}

// hang has the image come from a registry that hangs.
func hang(t *testing.T, list []resource, registry *lab.Hanging) {
	t.Helper()
	image := imageOf(t, list)
	set(t, image, strings.Replace(image["url"].(string), commands.registry, registry.Addr, 1), "url")
}

// TestNoStart has the first image come from a registry that hangs: no gateway starts until Envoy Gateway no longer
// waits.
func TestNoStart(t *testing.T) {
	list, _ := installed(t)
	registry := lab.Silent(t)
	hang(t, list, registry)
	list = onHost(t, list, harness.FreePortT(t), lab.Servers(t, 1))
	dir := t.TempDir()
	plane := startControlPlane(t, dir, append(list, machine(filepath.Join(dir, "config/certs/envoy/ca.crt"))))
	registry.Await(t, 2) // by HTTP a while after HTTPS, in which a gateway would start
	if _, err := os.Stat(plane.path(program) + ".args"); err == nil {
		t.Error("a gateway starts while Envoy Gateway waits")
	}
	registry.Leave()
	plane.envoyArgs(t)
}
