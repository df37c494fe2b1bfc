package fault

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestBurst sends a small part of a body, which the plugin holds, and then the rest as fast as Envoy reads: at times it
// reads all that it may hold at once, which comes on top.
func TestBurst(t *testing.T) {
	t.Parallel()
	g := harness.StartT(t, harness.Options{Endpoints: harness.Models(t, 2), Config: config(`"unit":"tokens"`, `"body_timeout":"30s"`)})
	harness.AwaitReason(t, g.URL(), "chosen")
	const uploads, part = 16, 100 << 10
	body := text(48 * mib)
	want, lost := arrived(body), 0
	for range uploads {
		if got := sendInTwo(t, g.Addr(), body, part); got != want {
			lost++
			t.Logf("%.100s", got)
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d uploads were refused", lost, uploads)
	}
	g.DrainedT(t)
}

// sendInTwo sends a part of the body, and the rest once that is likely to be held.
func sendInTwo(t *testing.T, addr string, body []byte, part int) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(harness.Patience)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nhost: llm\r\ncontent-length: %d\r\n\r\n%s", echo, len(body), body[:part])
	time.Sleep(5 * time.Millisecond)
	if _, err := conn.Write(body[part:]); err != nil {
		return err.Error()
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err.Error()
	}
	return outcome(resp)
}
