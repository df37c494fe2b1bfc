package fault

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/lb/prompt/prompttest"
)

// upload is one way to send a request with a body.
type upload struct {
	name string
	send func(g *harness.Gateway) string // returns what became of it
	bad  bool                            // violates HTTP: it may never be answered
}

const echo = "/sim/echo" // answers with the length and the hash of the body

// text is the beginning of a chat request, n bytes long.
func text(n int) []byte {
	body := bytes.Repeat([]byte("All work and no play makes Jack a dull boy. "), n/44+1)
	return append([]byte(`{"model":"m","messages":[{"role":"user","content":"`), body...)[:n]
}

// frames is a body that comes in pieces of the given size.
type frames struct {
	rest []byte
	size int
}

// Read implements io.Reader.
func (f *frames) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), f.size)], f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// http2 speaks HTTP/2, in which every write is a frame of its own.
var http2 = harness.H2C()

var http1 = &http.Client{Transport: &http.Transport{}, Timeout: harness.Patience}

// post sends body in frames of the given size, with a content-length unless that is negative.
func post(c *http.Client, body []byte, size int, length int64) func(g *harness.Gateway) string {
	return func(g *harness.Gateway) string { return postTo(c, g.URL(), body, size, length) }
}

func postTo(c *http.Client, url string, body []byte, size int, length int64) string {
	req, err := http.NewRequest(http.MethodPost, url+echo, io.NopCloser(&frames{body, size}))
	if err != nil {
		return err.Error()
	}
	req.ContentLength = length
	resp, err := c.Do(req)
	if err != nil {
		return err.Error()
	}
	return outcome(resp)
}

// outcome reads an answer to its end.
func outcome(resp *http.Response) string {
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Sprintf("%d, broken off", resp.StatusCode)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, answer)
}

// arrived is the outcome of a request whose body the server got as it was sent.
func arrived(body []byte) string {
	hash := sha256.Sum256(body)
	return fmt.Sprintf(`200 {"method":"POST","length":%d,"sha256":"%s"}`, len(body), hex.EncodeToString(hash[:]))
}

// raw writes a request byte by byte as given and then stops sending, without closing the connection.
func raw(headers, body string) func(g *harness.Gateway) string {
	return func(g *harness.Gateway) string {
		conn, err := net.Dial("tcp", g.Addr())
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		const wait = 3 * time.Second // for an answer that may never come
		if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
			return err.Error()
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nhost: llm\r\n%s\r\n%s", echo, headers, body)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		var late net.Error
		switch {
		case errors.As(err, &late) && late.Timeout():
			return "no answer"
		case err != nil:
			return "closed"
		}
		return outcome(resp)
	}
}

// uploads returns bodies that are unusual in size or form, and the outcomes of those that are valid.
func uploads() (list []upload, want map[string]string) {
	want = map[string]string{}
	for _, size := range []int{10 * mib, 100 * mib} {
		for _, length := range []int64{int64(size), -1} {
			for name, c := range map[string]*http.Client{"HTTP/1": http1, "HTTP/2": http2} {
				key := fmt.Sprintf("%d MiB, %s, length %t", size/mib, name, length > 0)
				list = append(list, upload{name: key, send: post(c, text(size), mib, length)})
				want[key] = arrived(text(size))
			}
		}
	}
	const beyond = 300 << 10 // what is inspected is 256 KiB
	for name, c := range map[string]*http.Client{"HTTP/1": http1, "HTTP/2": http2} {
		key := "a byte per frame, " + name
		list = append(list, upload{name: key, send: post(c, text(beyond), 1, -1)})
		want[key] = arrived(text(beyond))
	}
	for _, b := range prompttest.Hostile(mib) {
		list = append(list, upload{name: b.Name, send: post(http1, b.JSON, mib, int64(len(b.JSON)))})
		want[b.Name] = arrived(b.JSON)
	}
	length := func(n string) string { return "content-length: " + n + "\r\n" }
	chat := string(text(200)) + `"}]}`
	for _, u := range []struct{ name, headers, body string }{
		{"length too large", length("100000"), chat},
		{"length far too large", length("9223372036854775807"), chat},
		{"length beyond any number", length("99999999999999999999"), chat},
		{"length too small", length("20"), chat},
		{"length of nothing", length("0"), chat},
		{"length negative", length("-1"), chat},
		{"length no number", length("many"), chat},
		{"lengths that differ", length("20") + length(strconv.Itoa(len(chat))), chat},
		{"length given twice", length(strconv.Itoa(len(chat))) + length(strconv.Itoa(len(chat))), chat},
		{"length and chunks", length("5") + "transfer-encoding: chunked\r\n", "5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n"},
		{"no length", "", chat},
		{"chunks without an end", "transfer-encoding: chunked\r\n", "5\r\n{\"a\":\r\n"},
		{"a chunk that is none", "transfer-encoding: chunked\r\n", "zz\r\n{\"a\":1}\r\n0\r\n\r\n"},
		{"a chunk of 4 GiB", "transfer-encoding: chunked\r\n", "100000000\r\n" + chat},
	} {
		list = append(list, upload{name: u.name, send: raw(u.headers, u.body), bad: true})
	}
	return list, want
}

// sendAll returns the outcomes of the uploads, by name. The bad ones wait together for answers that may never come.
func sendAll(g *harness.Gateway, list []upload) map[string]string {
	got := map[string]string{}
	var mu sync.Mutex
	var group sync.WaitGroup
	do := func(u upload) {
		became := u.send(g)
		mu.Lock()
		defer mu.Unlock()
		got[u.name] = became
	}
	for _, u := range list {
		if !u.bad {
			do(u)
			continue
		}
		group.Add(1)
		go func() {
			defer group.Done()
			do(u)
		}()
	}
	group.Wait()
	return got
}

// TestBodies sends unusual bodies to an Envoy without the plugin and to one with it, in both units and with
// prefix_cache: with unit tokens, requests are held for their bodies. The outcome of a request is the same in all of
// them, and the memory of the VMs does not grow.
func TestBodies(t *testing.T) {
	t.Parallel()
	endpoints := harness.Models(t, 2)
	bare := harness.StartT(t, harness.Options{Endpoints: endpoints, NoPlugin: true})
	g := harness.StartT(t, harness.Options{Endpoints: endpoints, Config: config()})
	harness.AwaitReason(t, g.URL(), "chosen")
	list, want := uploads()
	alone := sendAll(bare, list)
	for name, w := range want {
		if alone[name] != w {
			t.Fatalf("%s: Envoy alone: %.100s", name, alone[name])
		}
	}
	for _, c := range []struct{ name, config string }{
		{"requests", config()},
		{"tokens", config(`"unit":"tokens"`, `"body_timeout":"30s"`)},
		{"prefix_cache", strings.Replace(config(`"body_timeout":"30s"`), "global_least_request", "prefix_cache", 1)},
		{"tokens, bodies not waited for", config(`"unit":"tokens"`, `"body_timeout":"10ms"`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := g.PushPlugin(context.Background(), c.config); err != nil {
				t.Fatal(err)
			}
			for name, became := range sendAll(g, list) {
				if became != alone[name] {
					t.Errorf("%s: %.100s; Envoy alone: %.100s", name, became, alone[name])
				}
			}
			g.DrainedT(t)
		})
	}
	flat(t, g)
}

// flat compares Envoy's memory before and after more large bodies.
func flat(t *testing.T, g *harness.Gateway) {
	t.Helper()
	const more, room = 4, 24 * mib
	before := used(t, g)
	body := text(100 * mib)
	for range more {
		if got := post(http1, body, mib, -1)(g); got != arrived(body) {
			t.Fatalf("%.100s", got)
		}
	}
	growth := used(t, g) - before
	t.Logf("%d bodies of 100 MiB: Envoy uses %.1f MiB more than before", more, float64(growth)/mib)
	if growth > room {
		t.Errorf("Envoy's memory grows with the bodies: %d MiB more", growth/mib)
	}
	if n := strings.Count(g.Logs(), "panic"); n != 0 {
		t.Errorf("the log has %d panics", n)
	}
}
