package security

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestHardenedLayoutRefuses covers what the hardened layout adds and a client or a neighbour on the machine can try.
func TestHardenedLayoutRefuses(t *testing.T) {
	f := newFleet(t, 2)
	g := harness.StartT(t, harness.Options{Hardened: true, Endpoints: f.endpoints, Config: steering})

	for _, c := range []struct {
		name, header, path string
		status             int
	}{
		{"a plain request", "x-request-id", "/v1/models", http.StatusOK},
		{"a class of one's own choice", "x-warmgate-class", "/v1/models", http.StatusOK}, // taken away, not refused
		{"a tenant of one's own choice", "x-warmgate-tenant", "/v1/models", http.StatusOK},
		{"a header that a server may read as another", "x_warmgate_session", "/v1/models", http.StatusBadRequest},
		{"an escaped slash", "x-request-id", "/v1%2Fmodels", http.StatusTemporaryRedirect},
	} {
		t.Run(c.name, func(t *testing.T) {
			if a := harness.Send(t, nil, http.MethodGet, g.URL()+c.path, "", c.header+": forged"); a.Status !=
				c.status {
				t.Errorf("answered %d, want %d", a.Status, c.status)
			}
		})
	}
	if _, leaks := f.take(); leaks != nil {
		t.Errorf("model servers were sent %v", leaks)
	}
	t.Run("admin", func(t *testing.T) { testAdmin(t, filepath.Join(g.Dir(), "admin.sock")) })
}

// testAdmin requests the pages of the admin interface that must, and must not, be served.
func testAdmin(t *testing.T, socket string) {
	info, err := os.Stat(socket)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the admin socket has mode %o, want 600", mode)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial}}
	defer client.CloseIdleConnections()
	for _, c := range []struct {
		method, page string
		status       int
	}{
		{http.MethodGet, "/clusters", http.StatusOK},
		{http.MethodGet, "/clusters?format=json", http.StatusOK},
		{http.MethodGet, "/stats/prometheus", http.StatusOK},
		{http.MethodGet, "/config_dump", http.StatusForbidden}, // it would show the plugin's configuration
		{http.MethodGet, "/clustersx", http.StatusForbidden},
		{http.MethodPost, "/stats/recentlookups/clear", http.StatusForbidden},
		{http.MethodPost, "/quitquitquit", http.StatusForbidden},
		{http.MethodPost, "/healthcheck/fail?x=/clusters", http.StatusForbidden},
	} {
		a := harness.Send(t, &client, c.method, "http://admin"+c.page, "")
		if a.Status != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.page, a.Status, c.status)
		}
		if c.page == "/clusters" && !strings.Contains(a.Body, "llm::") {
			t.Error("/clusters does not show the model servers")
		}
	}
}
