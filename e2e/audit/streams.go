package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// OpenCount is how many streams clients have open at one endpoint.
type OpenCount struct {
	All     int64
	Counted int64 // those that the plugin has counted, by its debug header
}

// Streams is a group of streamed answers that are open at the same time, as their clients see them.
type Streams struct {
	site   *Site
	client *http.Client
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	open   map[int]place
	errs   map[string][]error // by the endpoint's address
	ended  int                // with [DONE]
	failed int
}

// place is where a stream is served.
type place struct {
	addr    string
	counted bool
}

// counts reports whether the plugin has a lease for a request with the given reason.
func counts(reason string) bool {
	return reason == "chosen" || reason == "shadow" || strings.HasPrefix(reason, "body_")
}

// OpenStreams opens n streams, through the gateways in turn, each on a connection of its own, whose answers have the
// given number of tokens. It returns when all have response headers. Release or Wait ends them.
func (s *Site) OpenStreams(ctx context.Context, n, tokens int) (*Streams, error) {
	run, cancel := context.WithCancel(ctx)
	g := &Streams{
		site: s, cancel: cancel, open: map[int]place{}, errs: map[string][]error{},
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}},
	}
	begun := make(chan error, n)
	for i := range n {
		body, err := loadgen.ChatBody("sim", fmt.Sprintf("stream %d", i), tokens, true)
		if err != nil {
			cancel()
			return nil, err
		}
		g.wg.Add(1)
		go func() {
			defer g.wg.Done()
			g.play(run, i, body, begun)
		}()
	}
	var errs []error
	for range n {
		errs = append(errs, <-begun)
	}
	if err := errors.Join(errs...); err != nil {
		g.Release()
		return nil, fmt.Errorf("audit: opening streams: %w", err)
	}
	return g, nil
}

// play opens one stream, reports on begun and reads it to its end.
func (g *Streams) play(ctx context.Context, id int, body []byte, begun chan<- error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.site.Gateways[id%len(g.site.Gateways)].URL()+path,
		bytes.NewReader(body))
	if err != nil {
		begun <- err
		return
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := g.client.Do(req)
	if err != nil {
		begun <- err
		return
	}
	defer resp.Body.Close()
	at, err := g.placeOf(resp)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s from %s", resp.Status, at.addr)
	}
	if err != nil {
		begun <- err
		return
	}
	g.mu.Lock()
	g.open[id] = at
	g.mu.Unlock()
	begun <- nil
	g.end(ctx, id, at, readToEnd(resp.Body))
}

func (g *Streams) placeOf(resp *http.Response) (place, error) {
	index, err := strconv.Atoi(resp.Header.Get(loadgen.EndpointHeader))
	servers := g.site.Servers()
	if err != nil || index < 0 || index >= len(servers) {
		return place{},
			fmt.Errorf("%s with %s %q", resp.Status, loadgen.EndpointHeader, resp.Header.Get(loadgen.EndpointHeader))
	}
	return place{servers[index].Addr(), counts(resp.Header.Get("x-warmgate-reason"))}, nil
}

// readToEnd returns nil if the stream ends as a complete one does.
func readToEnd(r io.Reader) error {
	const done = "data: [DONE]\n\n"
	var last []byte
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		last = append(last, buf[:n]...)
		last = last[max(0, len(last)-len(done)):]
		switch {
		case errors.Is(err, io.EOF) && string(last) == done:
			return nil
		case err != nil:
			return fmt.Errorf("the stream ended early: %w", err)
		}
	}
}

func (g *Streams) end(ctx context.Context, id int, at place, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, id)
	switch {
	case err == nil:
		g.ended++
	case ctx.Err() == nil:
		g.failed++
		g.errs[at.addr] = append(g.errs[at.addr], err)
	}
}

// Open returns how many of the streams are open, by endpoint.
func (g *Streams) Open() map[string]OpenCount {
	g.mu.Lock()
	defer g.mu.Unlock()
	byAddr := map[string]OpenCount{}
	for _, at := range g.open {
		c := byAddr[at.addr]
		c.All++
		if at.counted {
			c.Counted++
		}
		byAddr[at.addr] = c
	}
	return byAddr
}

// Counted returns how many of the open streams the plugin has counted.
func (g *Streams) Counted() (n int64) {
	for _, c := range g.Open() {
		n += c.Counted
	}
	return n
}

// Len returns how many of the streams are open.
func (g *Streams) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.open)
}

// Failed returns how many streams have been cut, at the given endpoint or, with "", at any.
func (g *Streams) Failed(addr string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if addr == "" {
		return g.failed
	}
	return len(g.errs[addr])
}

// Wait waits for the end of all streams and returns how many were complete, and how many were cut.
func (g *Streams) Wait() (complete, cut int) {
	g.wg.Wait()
	g.cancel()
	return g.ended, g.failed
}

// Release closes the connections of all clients with an open stream.
func (g *Streams) Release() {
	g.cancel()
	g.wg.Wait()
}
