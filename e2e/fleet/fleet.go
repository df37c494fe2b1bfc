// Package fleet runs, until a test ends, a gateway before simulated engines that can be made to fail, with counts in
// Redis, and a real Prometheus that scrapes it: for tests of what operators see.
package fleet

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
)

const (
	// Password is the one that Redis has.
	Password = "a password of the test's own"
	// size is how many engines there are.
	size = 6
)

// Fleet is a gateway before engines, each behind a proxy. All engines have the adapter "adapter", every second one
// "half" as well.
type Fleet struct {
	T       testing.TB
	Engines []*vllmsim.Server
	Proxies []*faultproxy.Proxy
	Gateway *harness.Gateway
}

// StartT starts all of it, with so many workers and the plugin's configuration.
func StartT(t testing.TB, workers int, config string) *Fleet {
	t.Helper()
	redis := redisserver.StartT(t, redisserver.Options{Config: []string{"requirepass \"" + Password + "\""}})
	f := &Fleet{T: t}
	o := harness.Options{Workers: workers, Redis: redis.Addr(), Config: config}
	for i := range size {
		c := vllmsim.Config{Index: i, Adapters: []string{"adapter", "half"}[:1+i%2]}
		c.NumBlocks, c.MaxLoras = 4096, 4
		f.Engines = append(f.Engines, vllmsimtest.StartT(t, c))
		proxy, err := faultproxy.Start(t.Context(), f.Engines[i].Addr())
		if err != nil {
			t.Fatal(err)
		}
		f.Proxies = append(f.Proxies, proxy)
		o.Endpoints = append(o.Endpoints, harness.Endpoint{Addr: proxy.Addr()})
	}
	f.Gateway = harness.StartT(t, o)
	return f
}

// Push gives the gateway another configuration of the plugin.
func (f *Fleet) Push(config string) {
	f.T.Helper()
	if err := f.Gateway.PushPlugin(f.T.Context(), config); err != nil {
		f.T.Fatal(err)
	}
}

// Set has the proxy of an engine do something to its connections.
func (f *Fleet) Set(i int, m faultproxy.Mode) {
	f.T.Helper()
	if err := f.Proxies[i].Set(m); err != nil {
		f.T.Fatal(err)
	}
}

// Tune has an engine serve, or fail, in a mode.
func (f *Fleet) Tune(i int, m vllmsim.Mode) {
	f.T.Helper()
	if err := f.Engines[i].SetMode(m); err != nil {
		f.T.Fatal(err)
	}
}

// clients have addresses of their own: what one of them alone finds is held against no server.
var clients = func() (list [16]http.Client) {
	for i := range list {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i+1))}}
		list[i].Transport = &http.Transport{DialContext: from.DialContext, MaxIdleConnsPerHost: 16}
	}
	return list
}()

// Ask sends a question behind the rules of a conversation, repeated so often, for an answer of so many tokens, and
// reads that. Headers are as in "x-tenant: a".
func (f *Fleet) Ask(
	ctx context.Context, model string, conversation, repeated, tokens int, stream bool, headers ...string,
) {
	system := strings.Repeat(fmt.Sprintf("Conversation %d has rules of its own. ", conversation), repeated)
	streaming := ""
	if stream {
		streaming = `"stream": true, "stream_options": {"include_usage": true}, `
	}
	body := fmt.Sprintf(`{"model": %q, "max_tokens": %d, %s
		"messages": [{"role": "system", "content": %q}, {"role": "user", "content": "question %d"}]}`,
		model, tokens, streaming, system, rand.Int())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.Gateway.URL()+"/v1/chat/completions",
		strings.NewReader(body))
	if err != nil {
		return
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	resp, err := clients[rand.IntN(len(clients))].Do(r)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
}
