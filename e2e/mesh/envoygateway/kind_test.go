package envoygateway

import (
	"io"
	"log"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

// TestKind runs the commands of examples/kind by which images and resources get into the cluster. Envoy Gateway makes
// of the resources what balances requests; the model servers are of the image that was pushed, behind the service that
// the route names.
func TestKind(t *testing.T) {
	const folder = "examples/kind"
	images := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(images.Close)
	// The names that the registry has on the nodes and for Envoy Gateway. make runs in the source tree.
	inside := strings.NewReplacer("localhost:30500", images.Listener.Addr().String(),
		"10.96.0.50:5000", images.Listener.Addr().String(), "-C ../.. ", "")
	commands := lab.Commands(lab.Block(t, folder+"/README.md", "console", "push-image"))
	applied := lab.Applying(t, harness.PathT(t, folder), inside.Replace(strings.Join(commands, "\n")))
	list := parse(t, inside.Replace(applied))

	engine, service := find(t, list, "Deployment"), find(t, list, "Service")
	container := at(t, engine, "spec", "template", "spec", "containers", 0)
	ref, err := name.ParseReference(at(t, container, "image").(string))
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	if config, err := img.ConfigFile(); err != nil || !slices.Equal(config.Config.Entrypoint, []string{"/warmgate"}) {
		t.Errorf("the image of model servers: %+v, %v", config, err)
	}
	backend := at(t, find(t, list, "HTTPRoute"), "spec", "rules", 0, "backendRefs", 0)
	if at(t, backend, "name") != at(t, service, "metadata", "name") ||
		at(t, backend, "port") != at(t, service, "spec", "ports", 0, "port") ||
		at(t, service, "spec", "selector", "app") != at(t, engine, "spec", "template", "metadata", "labels", "app") {
		t.Errorf("the route leads to %v, the service is %v", backend, service)
	}

	list = slices.DeleteFunc(list, func(r resource) bool { return r["kind"] == "Deployment" || r["kind"] == "Service" })
	controlled(t, harness.DefaultVersion, list).AwaitChosen(t)
}
