package istio

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	istiolog "istio.io/istio/pkg/log"

	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

const document = "docs/istio.md"

// TestMain lets Istio log errors alone.
func TestMain(m *testing.M) {
	for _, scope := range istiolog.Scopes() {
		scope.SetOutputLevel(istiolog.ErrorLevel)
	}
	os.Exit(m.Run())
}

// commands is what the commands of the document have done, once for all tests.
var commands struct {
	once             sync.Once
	applied, request string
	images           http.Handler // the registry
	registry         string       // its ip:port
}

// installed runs the commands of the document, with a registry that stays until the process ends. It returns the
// resources that they apply, and the command that sends a request.
func installed(t *testing.T) (applied, request string) {
	t.Helper()
	commands.once.Do(func() {
		commands.images = registry.New(registry.Logger(log.New(io.Discard, "", 0)))
		commands.registry = httptest.NewServer(commands.images).Listener.Addr().String()
		commands.applied, commands.request = lab.Install(t, document, commands.registry)
	})
	if commands.applied == "" {
		t.Fatal("the commands of the document failed")
	}
	return commands.applied, commands.request
}
