// Package faultproxy is a TCP proxy that disturbs the traffic between a client and a server in a mode that is set at
// run time: slow, stalled, cut, reset, refused or falsified. It knows no protocol, and calls what the client sends
// requests and what the server sends replies.
package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/freeport"
)

// Proxy is a running proxy. Its methods may be called from several goroutines.
type Proxy struct {
	addr   string
	server string

	mu       sync.Mutex
	state    *state
	listener net.Listener // nil while connections are refused
	links    map[*link]struct{}
	stopped  bool
}

// state is a mode in force.
type state struct {
	Mode
	over chan struct{} // closed when another mode follows
}

// rebindTimeout bounds the wait for the port when connections are accepted again.
const rebindTimeout = time.Minute

// Start runs a proxy in front of a server at ip:port. The proxy passes everything until Set puts another mode in force,
// and runs until Stop or until ctx ends.
func Start(ctx context.Context, server string) (*Proxy, error) {
	// A port that can be had again after connections were refused for a while.
	port, err := freeport.Get()
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), server: server,
		state: &state{over: make(chan struct{})}, links: map[*link]struct{}{},
	}
	if err := p.listen(); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, p.Stop)
	return p, nil
}

// Addr returns ip:port where clients connect.
func (p *Proxy) Addr() string { return p.addr }

// Set puts a mode in force, for open connections too. It fails when connections were refused and the port is taken now.
func (p *Proxy) Set(m Mode) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return errors.New("faultproxy: the proxy was stopped")
	}
	was := p.state.gate == vanished
	close(p.state.over)
	p.state = &state{Mode: m, over: make(chan struct{})}
	if m.gate == refused {
		p.unlisten()
	}
	if m.gate >= reset {
		for l := range p.links {
			l.close(m.gate == reset)
		}
	}
	if m.gate != refused && p.listener == nil {
		if err := p.listen(); err != nil {
			return err
		}
	}
	if gone := m.gate == vanished; gone != was {
		return p.vanish(gone)
	}
	return nil
}

// vanish has the kernel drop what is sent to the proxy, or no longer.
func (p *Proxy) vanish(gone bool) error {
	var errs []error
	if p.listener != nil {
		errs = append(errs, deafen(p.listener, gone))
	}
	for l := range p.links {
		errs = append(errs, deafen(l.client, gone))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("faultproxy: the kernel drops no packets: %w", err)
	}
	return nil
}

// Stop closes the listener and all connections. Calling it again does nothing.
func (p *Proxy) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.unlisten()
	for l := range p.links {
		l.close(false)
	}
}

// listen opens the listener and serves it.
func (p *Proxy) listen() error {
	deadline := time.Now().Add(rebindTimeout)
	for {
		var config net.ListenConfig
		config.SetMultipathTCP(false) // its sockets have no filters: see deafen
		listener, err := config.Listen(context.Background(), "tcp", p.addr)
		if err == nil {
			p.listener = listener
			go p.serve(listener)
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("faultproxy: %w", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (p *Proxy) unlisten() {
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
}

// serve accepts connections until the listener is closed.
func (p *Proxy) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go p.connect(client.(halfCloser))
	}
}

// connect joins a client with the server. A client whose server cannot be reached is closed.
func (p *Proxy) connect(client halfCloser) {
	if g := p.current().gate; g >= reset {
		abort(client, g == reset)
		return
	}
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		client.Close()
		return
	}
	l := &link{proxy: p, client: client, server: server.(halfCloser), done: make(chan struct{})}
	if !p.add(l) {
		return
	}
	var directions sync.WaitGroup
	directions.Add(2)
	go func() { defer directions.Done(); l.pump(l.server, l.client, false) }()
	go func() { defer directions.Done(); l.pump(l.client, l.server, true) }()
	directions.Wait()
	l.close(false)
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// add registers a link, or closes it when a mode has been set since then in which it may not exist.
func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped || p.state.gate >= reset {
		l.close(p.state.gate == reset)
		return false
	}
	p.links[l] = struct{}{}
	if p.state.gate == vanished {
		_ = deafen(l.client, true) // Set has failed if that fails
	}
	return true
}

// current returns the mode in force.
func (p *Proxy) current() *state {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}
