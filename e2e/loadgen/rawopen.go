package loadgen

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/wait"
)

// RawOpen is an open loop over plain connections: prepared requests are written when they are due, at random times of a
// mean rate, whether or not earlier ones have been answered. Of HTTP it understands what [Raw] does.
type RawOpen struct {
	Addr     string  // host:port
	Rate     float64 // requests per second
	Requests int
	Seed     uint64 // of the times
	// Request returns the complete HTTP/1.1 request i, in parts. It is called in order, each before it is due.
	Request func(i int) net.Buffers
	// Connections is the maximum number of them, 256 if it is 0. A request that finds none idle is late.
	Connections int
	Timeout     time.Duration // per response; 0 means 30 s
}

// RawOpenResult is the result of a RawOpen run.
type RawOpenResult struct {
	Requests int           // responses read, whatever their status
	Non200   int           // of these
	Errors   int           // requests without a response
	Elapsed  time.Duration // from the first due time to the last response
	Rate     float64       // responses per second
	Latency  Quantiles     // from the due time to the end of the response
	Late     Quantiles     // from the due time to the begin of the request: by how much this program is behind
	Detail   string        // the first failure
}

// openRun is a run under way.
type openRun struct {
	RawOpen
	places chan struct{} // one for each connection that may be in use

	mu            sync.Mutex
	idle          []*openConn
	latency, late []time.Duration
	result        RawOpenResult
}

type openConn struct {
	net.Conn
	in *bufio.Reader
}

// Run plays all requests and returns when the last is answered. It returns an error only if there is nothing to
// measure: no number of requests or no rate is set, or not one response came.
func (o RawOpen) Run(ctx context.Context) (RawOpenResult, error) {
	if o.Requests <= 0 || o.Rate <= 0 {
		return RawOpenResult{}, errors.New("loadgen: an open loop needs a number of requests and a rate")
	}
	if o.Connections <= 0 {
		o.Connections = 256
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	r := &openRun{RawOpen: o, places: make(chan struct{}, o.Connections)}
	start := time.Now()
	r.play(ctx, start)
	for _, c := range r.idle {
		_ = c.Close()
	}
	return r.sum(time.Since(start))
}

// play sends the requests at their times, and waits for their answers.
func (r *openRun) play(ctx context.Context, start time.Time) {
	times := rand.New(rand.NewPCG(r.Seed, 0x6f70656e))
	var wg sync.WaitGroup
	defer wg.Wait()
	due := start
	for i := range r.Requests {
		request := r.Request(i)
		if wait.For(ctx, time.Until(due)) != nil {
			return
		}
		wg.Add(1)
		go func(due time.Time) {
			defer wg.Done()
			r.one(ctx, request, due)
		}(due)
		due = due.Add(time.Duration(times.ExpFloat64() / r.Rate * float64(time.Second)))
	}
}

// one sends a request on an idle connection, or a new one, and waits for the answer.
func (r *openRun) one(ctx context.Context, request net.Buffers, due time.Time) {
	r.places <- struct{}{}
	defer func() { <-r.places }()
	conn, err := r.take(ctx)
	late, status := time.Since(due), 0
	if err == nil {
		status, err = conn.exchange(request, r.Timeout)
	}
	took := time.Since(due)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = append(r.late, late)
	switch {
	case err != nil:
		r.result.Errors++
		r.detail(err.Error())
		if conn != nil {
			_ = conn.Close()
		}
		return
	case status != 200:
		r.result.Non200++
		r.detail(fmt.Sprintf("status %d", status))
	}
	r.latency, r.idle = append(r.latency, took), append(r.idle, conn)
}

func (r *openRun) detail(text string) {
	if r.result.Detail == "" {
		r.result.Detail = text
	}
}

// take returns the connection that was used last of those that are idle, or a new one.
func (r *openRun) take(ctx context.Context) (*openConn, error) {
	r.mu.Lock()
	if n := len(r.idle); n > 0 {
		conn := r.idle[n-1]
		r.idle = r.idle[:n-1]
		r.mu.Unlock()
		return conn, nil
	}
	r.mu.Unlock()
	conn, err := (&net.Dialer{Timeout: r.Timeout}).DialContext(ctx, "tcp", r.Addr)
	if err != nil {
		return nil, err
	}
	return &openConn{Conn: conn, in: bufio.NewReaderSize(conn, 4<<10)}, nil
}

// exchange sends one request and reads its response.
func (c *openConn) exchange(request net.Buffers, timeout time.Duration) (status int, err error) {
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return 0, err
	}
	if _, err := request.WriteTo(c.Conn); err != nil {
		return 0, err
	}
	return readResponse(c.in)
}

func (r *openRun) sum(elapsed time.Duration) (RawOpenResult, error) {
	out := r.result
	out.Requests, out.Elapsed = len(r.latency), elapsed
	out.Rate = float64(out.Requests) / elapsed.Seconds()
	out.Latency, out.Late = QuantilesOf(r.latency), QuantilesOf(r.late)
	if out.Requests == 0 {
		return out, fmt.Errorf("loadgen: no response: %s", out.Detail)
	}
	return out, nil
}
