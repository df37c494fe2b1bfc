package loadgen

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Raw is a closed loop over plain connections: each writes the prepared request, reads one response, and starts again.
// It understands just enough HTTP/1.1 for that: a status line, Content-Length or chunked bodies without trailers.
type Raw struct {
	Addr        string        // host:port
	Request     []byte        // complete HTTP/1.1 request
	Connections int           // users; 0 means 1
	Requests    int           // stop after that many in all
	Timeout     time.Duration // per response; 0 means 30 s
}

// RawResult is the result of a Raw run.
type RawResult struct {
	Requests int           `json:"requests"` // responses read, whatever their status
	Non200   int           `json:"non_200"`
	Errors   int           `json:"errors"` // connections that broke
	Elapsed  time.Duration `json:"elapsed_ns"`
	Rate     float64       `json:"rate_rps"`
	Latency  Quantiles     `json:"latency"`
	Detail   string        `json:"detail,omitempty"` // the first failure
}

// PostRequest renders an HTTP/1.1 POST of a JSON body, for Raw.Request.
func PostRequest(host, path string, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		path, host, len(body))
	b.Write(body)
	return b.Bytes()
}

// Run plays the loop until all requests were sent or ctx ends. A broken connection is counted and opened again; Run
// returns an error only if there is nothing to measure: no number of requests is set, or not one response came.
func (r Raw) Run(ctx context.Context) (RawResult, error) {
	if r.Requests <= 0 {
		return RawResult{}, errors.New("loadgen: a raw run needs a limit")
	}
	if r.Timeout <= 0 {
		r.Timeout = 30 * time.Second
	}
	budget := &atomic.Int64{}
	budget.Store(int64(r.Requests))
	users := make([]rawUser, max(1, r.Connections))
	var wg sync.WaitGroup
	start := time.Now()
	for i := range users {
		users[i] = rawUser{Raw: r, budget: budget}
		wg.Add(1)
		go func() {
			defer wg.Done()
			users[i].loop(ctx)
		}()
	}
	wg.Wait()
	return sumRaw(users, time.Since(start))
}

func sumRaw(users []rawUser, elapsed time.Duration) (RawResult, error) {
	out := RawResult{Elapsed: elapsed}
	var all []time.Duration
	for i := range users {
		u := &users[i]
		all = append(all, u.latency...)
		out.Non200 += u.non200
		out.Errors += u.errors
		if out.Detail == "" && u.first != nil {
			out.Detail = u.first.Error()
		}
	}
	out.Requests = len(all)
	out.Rate = float64(out.Requests) / elapsed.Seconds()
	out.Latency = QuantilesOf(all)
	if out.Requests == 0 {
		return out, fmt.Errorf("loadgen: no response: %s", out.Detail)
	}
	return out, nil
}

// rawUser is one connection and what happened on it.
type rawUser struct {
	Raw
	budget  *atomic.Int64
	latency []time.Duration
	non200  int
	errors  int
	first   error
}

// maxRawErrors bounds how often a user opens its connection again.
const maxRawErrors = 100

func (u *rawUser) loop(ctx context.Context) {
	for ctx.Err() == nil && u.errors < maxRawErrors {
		err := u.connection(ctx)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			return
		}
		u.errors++
		if u.first == nil {
			u.first = err
		}
	}
}

// connection plays requests on one connection until it breaks (an error) or all were sent (nil).
func (u *rawUser) connection(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: u.Timeout}).DialContext(ctx, "tcp", u.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	in := bufio.NewReaderSize(conn, 16<<10)
	for ctx.Err() == nil {
		if u.budget.Add(-1) < 0 {
			return nil
		}
		if err := u.exchange(conn, in); err != nil {
			return err
		}
	}
	return nil
}

// exchange sends one request and reads its response.
func (u *rawUser) exchange(conn net.Conn, in *bufio.Reader) error {
	start := time.Now()
	if err := conn.SetDeadline(start.Add(u.Timeout)); err != nil {
		return err
	}
	if _, err := conn.Write(u.Request); err != nil {
		return err
	}
	status, err := readResponse(in)
	if err != nil {
		return err
	}
	u.latency = append(u.latency, time.Since(start))
	if status != 200 {
		u.non200++
	}
	return nil
}

// readResponse reads one response and returns its status.
func readResponse(in *bufio.Reader) (status int, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return 0, fmt.Errorf("loadgen: status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, fmt.Errorf("loadgen: status line %q", line)
	}
	return status, DiscardMessage(in)
}

// DiscardMessage reads the headers and the body of an HTTP/1.1 message whose first line has been read.
func DiscardMessage(in *bufio.Reader) error {
	length, chunked := 0, false
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			chunked = true
		}
	}
	if chunked {
		return discardChunks(in)
	}
	_, err := in.Discard(length)
	return err
}

// discardChunks reads a chunked body to its end.
func discardChunks(in *bufio.Reader) error {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseUint(string(bytes.TrimRight(line, "\r\n")), 16, 31)
		if err != nil {
			return fmt.Errorf("loadgen: chunk size %q", line)
		}
		if _, err := io.CopyN(io.Discard, in, int64(size)+2); err != nil { // with the CRLF after it
			return err
		}
		if size == 0 {
			return nil
		}
	}
}
