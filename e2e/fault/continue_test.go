package fault

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

// sendOnRequest sends requests whose clients wait for a 100 (Continue) before they send the body. A gateway that leaves
// the 100 to the model server does not get the body while the plugin holds the headers for it.
func sendOnRequest(t *testing.T, g *harness.Gateway) {
	t.Helper()
	if err := g.PushPlugin(t.Context(), config(`"unit":"tokens"`, `"body_timeout":"60s"`)); err != nil {
		t.Fatal(err)
	}
	body := append(text(200), `"}]}`...)
	for url, want := range map[string]string{g.URL(): "chosen", listenerURL(t, g, "forwards 100"): "body_late"} {
		if reason := expectContinue(t, url, body); reason != want {
			t.Errorf("the reason is %q, want %q", reason, want)
		}
	}
}

// expectContinue sends a body after the 100 (Continue), which must arrive, and returns the reason.
func expectContinue(t *testing.T, url string, body []byte) (reason string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second) // less than body_timeout
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+echo, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("expect", "100-continue")
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: harness.Patience, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || "200 "+string(answer) != arrived(body) {
		t.Errorf("%s, %v: %.100s", resp.Status, err, answer)
	}
	return resp.Header.Get("x-warmgate-reason")
}
