package streamtest_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/streamtest"
)

// http3Listener is the listener in docs/envoy.md.
const http3Listener = "main-http3"

// withHTTP3 adds the listener of docs/envoy.md, with the filters of main, to the files for scenarios.
func withHTTP3(certificate, key string) func(file string, doc *yaml.Node) error {
	return func(file string, doc *yaml.Node) error {
		if err := forScenarios(file, doc); err != nil || file != "envoy.yaml" {
			return err
		}
		listener, err := documented()
		if err != nil {
			return err
		}
		listeners, err := harness.Find(doc, "static_resources.listeners")
		if err != nil {
			return err
		}
		filters, err := copyOf(listeners, "[name=main].filter_chains[0].filters")
		if err != nil {
			return err
		}
		const (
			manager = "filter_chains[0].filters[0].typed_config"
			context = "filter_chains[0].transport_socket.typed_config.downstream_tls_context.common_tls_context"
		)
		err = errors.Join(
			harness.Set(listener, "address.socket_address.port_value", 0),
			harness.Set(listener, context+".tls_certificates[0].certificate_chain.filename", certificate),
			harness.Set(listener, context+".tls_certificates[0].private_key.filename", key),
			harness.Set(listener, "filter_chains[0].filters", filters),
			harness.Set(listener, manager+".codec_type", "HTTP3"),
			harness.Set(listener, manager+".http3_protocol_options", map[string]any{}),
			harness.Remove(listener, manager+".http_protocol_options"),
		)
		listeners.Content = append(listeners.Content, listener)
		return err
	}
}

// copyOf returns a copy of what is at the path below the node.
func copyOf(node *yaml.Node, path string) (*yaml.Node, error) {
	around := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: "list"}, node}}
	found, err := harness.Find(around, "list"+path)
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(found)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	return doc.Content[0], nil
}

// documented returns the listener that docs/envoy.md shows.
func documented() (*yaml.Node, error) {
	root, err := harness.Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "docs/envoy.md"))
	if err != nil {
		return nil, err
	}
	block := regexp.MustCompile("(?s)```yaml\n(- name: " + http3Listener + "\n.*?)```").FindSubmatch(text)
	if block == nil {
		return nil, errors.New("docs/envoy.md shows no listener " + http3Listener)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(block[1], &doc); err != nil {
		return nil, err
	}
	return doc.Content[0].Content[0], nil
}

// newCertificate writes a certificate for 127.0.0.1 and its key.
func newCertificate(t *testing.T) (certificate, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(parsed)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("certificate.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret), pool
}

// http3Client sends requests to the listener over HTTP/3.
type http3Client struct {
	t         *testing.T
	driver    *envoy
	addr      string
	tls       *tls.Config
	transport http3.Transport
}

// dial opens a connection. With early, requests may be sent in the first packet (0-RTT), if there was a connection
// before.
func (c *http3Client) dial(early bool) (*quic.Conn, *http3.ClientConn) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	dial := quic.DialAddr
	if early {
		dial = quic.DialAddrEarly
	}
	conn, err := dial(ctx, c.addr, c.tls, &quic.Config{MaxIdleTimeout: patience})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.CloseWithError(0, "") })
	return conn, c.transport.NewClientConn(conn)
}

// http3Stream is a request over HTTP/3 and its model server.
type http3Stream struct {
	*envoyStream
	conn   *quic.Conn
	feed   *io.PipeWriter
	cancel context.CancelFunc
}

// open sends a request on a connection of its own.
func (c *http3Client) open(r streamtest.Request) *http3Stream {
	c.t.Helper()
	conn, over := c.dial(false)
	s := c.openOn(over, r.Filled())
	s.conn = conn
	return s
}

func (c *http3Client) openOn(over *http3.ClientConn, r streamtest.Request) *http3Stream {
	c.t.Helper()
	plain, id := c.driver.newStream()
	s := &http3Stream{envoyStream: plain}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	c.t.Cleanup(cancel)
	var body io.Reader
	if len(r.Frames) > 0 || r.Unended {
		body, s.feed = io.Pipe()
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, "https://"+c.addr+r.Path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set(streamHeader, id)
	if r.NoRetry {
		req.Header.Set(noRetryHeader, "1")
	}
	for _, p := range r.Trailers {
		if req.Trailer == nil {
			req.Trailer = http.Header{}
		}
		req.Trailer.Set(p[0], p[1])
	}
	go s.exchangeOver(over, req)
	for i, frame := range r.Frames {
		s.Send(frame, i == len(r.Frames)-1 && !r.Unended)
	}
	return s
}

// exchangeOver sends the request and takes the response as it comes.
func (s *http3Stream) exchangeOver(over *http3.ClientConn, req *http.Request) {
	defer close(s.done)
	resp, err := over.RoundTrip(req)
	if !s.tookHead(resp, err) {
		return
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Body, s.result.Cut = string(text), err != nil
	for name, values := range resp.Trailer {
		s.result.Headers["trailer "+strings.ToLower(name)] = values[0]
	}
}

func (s *http3Stream) Send(frame string, end bool) {
	_, _ = io.WriteString(s.feed, frame)
	if end {
		_ = s.feed.Close()
	}
}

func (s *http3Stream) ResetByClient() { s.cancel() }

// closeConnection ends the connection with all its streams.
func (s *http3Stream) closeConnection() { _ = s.conn.CloseWithError(0x100, "") }
