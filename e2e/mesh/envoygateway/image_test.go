package envoygateway

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/warmgate/warmgate/e2e/harness"
)

// pushed puts the module into a registry that runs until the test ends, in the form of an image of two layers, and
// returns the image's name.
func pushed(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	path, err := harness.Wasm(t.Context(), harness.HostEnvoy)
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const form = "application/vnd.module.wasm."
	image, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		static.NewLayer([]byte("{}"), form+"config.v1+json"),
		static.NewLayer(module, form+"content.layer.v1+wasm"))
	if err != nil {
		t.Fatal(err)
	}
	target := strings.TrimPrefix(server.URL, "http://") + "/warmgate/warmgate-envoy:0.1.0"
	ref, err := name.ParseReference(target)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	return target
}
