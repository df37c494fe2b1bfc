package security

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestConnectionHeaderDoesNotSteer names the steering headers in the Connection header, by which a client may have a
// proxy drop headers of the same request: the plugin's own choice must survive, and the forged one must not.
func TestConnectionHeaderDoesNotSteer(t *testing.T) {
	const requests = 200
	f := newFleet(t, 4)
	g := harness.StartT(t, harness.Options{Endpoints: f.endpoints, Config: steering})
	conn, err := net.Dial("tcp", g.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for range requests {
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, %s, %s\r\n%s: "+
			"%s\r\nContent-Length: %d\r\n\r\n%s",
			destination, session, destination, f.endpoints[0].Addr, len(chat), chat)
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s, %v", resp.Status, err)
		}
	}
	verdict(t, f, requests)
}
