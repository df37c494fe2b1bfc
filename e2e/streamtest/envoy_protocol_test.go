package streamtest_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
)

// Protocols that carry no request to inspect pass through a real Envoy to a server that speaks them, although the
// plugin is configured to hold bodies.
func TestEnvoyProtocols(t *testing.T) {
	server := vllmsimtest.StartT(t, vllmsim.Config{Instant: true})
	config := strings.Replace(envoyBase, `"debug_headers"`, `"unit":"tokens","body_timeout":"60s","debug_headers"`, 1)
	gw := harness.StartT(t, harness.Options{
		Edit: sameProtocol, Config: config, Module: artifactCopy(t),
		Endpoints: []harness.Endpoint{{Addr: server.Addr()}},
	})
	d := newEnvoy(t, gw)
	if !d.Await(func() bool { return reasonOf(t, gw.URL()+"/v1/models") == "chosen" }) {
		t.Fatal("the plugin does not learn of the server")
	}
	t.Run("gRPC over HTTP/2", func(t *testing.T) { callGRPC(t, gw.URL()) })
	t.Run("WebSocket", func(t *testing.T) { echoWebSocket(t, gw.Addr()) })
	t.Run("a large upload", func(t *testing.T) { upload(t, gw.URL()) })
	t.Run("server-sent events", func(t *testing.T) { readEvents(t, gw.URL()) })
}

// sameProtocol has Envoy use the client's protocol towards the server.
var sameProtocol = harness.OfFile("clusters.yaml", func(doc *yaml.Node) error {
	return harness.Set(doc, "resources[name=llm].typed_extension_protocol_options", map[string]any{
		"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": map[string]any{
			"@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
			"use_downstream_protocol_config": map[string]any{
				"http_protocol_options": map[string]any{}, "http2_protocol_options": map[string]any{},
			},
		},
	})
})

// reasonOf sends a request that must be served and returns the reason in the debug headers, "" for none.
func reasonOf(t *testing.T, url string) string {
	t.Helper()
	a := harness.Send(t, http.DefaultClient, http.MethodGet, url, "")
	if a.Status != http.StatusOK {
		t.Errorf("GET %s: %d", url, a.Status)
	}
	return a.Reason()
}

// callGRPC sends a message, reads its echo while the call is open, and sends another.
func callGRPC(t *testing.T, url string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()
	body, feed := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/sim.Echo/Call", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("content-type", "application/grpc")
	req.Header.Set("te", "trailers")
	message := append([]byte{0, 0, 0, 0, 5}, "hello"...)
	go func() { _, _ = feed.Write(message) }()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	echo := make([]byte, len(message))
	for i := range 2 {
		if _, err := io.ReadFull(resp.Body, echo); err != nil || !bytes.Equal(echo, message) {
			t.Fatalf("echo %d is %q, %v", i, echo, err)
		}
		if i == 0 {
			if _, err := feed.Write(message); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = feed.Close()
	rest, err := io.ReadAll(resp.Body)
	if err != nil || len(rest) != 0 || resp.Trailer.Get("grpc-status") != "0" {
		t.Errorf("%d bytes more, %v, trailers %v", len(rest), err, resp.Trailer)
	}
	if got := resp.Header.Get("x-warmgate-reason"); got != "chosen" {
		t.Errorf("reason %q", got)
	}
}

// echoWebSocket sends masked frames and expects the server's echo of them.
func echoWebSocket(t *testing.T, addr string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET /ws HTTP/1.1\r\nhost: llm\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"+
		"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %+v", err, resp)
	}
	if got := resp.Header.Get("sec-websocket-accept"); got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" { // of RFC 6455
		t.Errorf("sec-websocket-accept %q", got)
	}
	frame := []byte("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58") // "Hello", masked, of RFC 6455
	for range 3 {
		echo := make([]byte, len(frame))
		if _, err := conn.Write(frame); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(reader, echo); err != nil || !bytes.Equal(echo, frame) {
			t.Fatalf("echo %x, %v", echo, err)
		}
	}
}

// upload sends 10 MB without a content-length, and compares hashes.
func upload(t *testing.T, url string) {
	body := bytes.Repeat([]byte(`{"prompt":"0123456789abcdef"}`), 10<<20/29)
	resp, err := http.Post(url+"/sim/echo", "application/json", struct{ io.Reader }{bytes.NewReader(body)})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got struct {
		Length int    `json:"length"`
		SHA256 string `json:"sha256"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(body); got.Length != len(body) || got.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("the server got %d bytes, %s; want %d", got.Length, got.SHA256, len(body))
	}
}

// readEvents reads a streamed answer to its end.
func readEvents(t *testing.T, url string) {
	resp, err := http.Post(url+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"m","stream":true,"max_tokens":20,"messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || strings.Count(string(text), "data: {") < 20 ||
		!strings.HasSuffix(string(text), "data: [DONE]\n\n") {
		t.Errorf("%v, %d bytes: %.300q", err, len(text), text)
	}
}
