package loadgen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/wait"
)

// EndpointHeader is the response header with the number of the simulated server.
const EndpointHeader = "x-sim-id"

// Kinds of failure, the values of Sample.Error. A response with a status other than 200 is "status_" and the status.
const (
	ErrConnect   = "connect"   // no connection
	ErrReset     = "reset"     // the connection broke before response headers
	ErrTimeout   = "timeout"   // Options.Timeout passed
	ErrTruncated = "truncated" // the body ended early: a short body, or a stream without [DONE]
	ErrMalformed = "malformed" // the body is not what the API promises
	ErrEngine    = "engine"    // the stream carried an error object
	ErrNotSent   = "not_sent"  // the run was cancelled before the request was due
	ErrCanceled  = "canceled"  // the run was cancelled while the request was under way
)

// Options configure a Client. URL is the only required field.
type Options struct {
	URL         string        // where the requests go, with path
	Header      http.Header   // added to each request
	KeepHeaders []string      // response headers copied into Sample.Header
	Timeout     time.Duration // per request, from the moment it is sent; 0 means 5 minutes
	Connections int           // idle connections kept; 0 means 1024
	Fresh       bool          // a new connection for each request
	From        string        // address that connections come from, such as "127.0.0.3"; "" leaves it to the kernel
	Seen        func(Sample)  // is called with each sample as it ends, one call at a time; may be nil
}

// Client sends planned requests over a pool of HTTP/1.1 keep-alive connections. It is safe for concurrent use.
//
// A request is sent again, by net/http, only if its pooled connection turned out to be closed before a single byte was
// written; every other failure is reported.
type Client struct {
	opt  Options
	http *http.Client
	seen sync.Mutex // one call of Options.Seen at a time
}

// maxAnswer is the largest non-streamed answer that is read, bytes.
const maxAnswer = 16 << 20

// NewClient returns a client for the given options.
func NewClient(opt Options) *Client {
	if opt.Timeout <= 0 {
		opt.Timeout = 5 * time.Minute
	}
	if opt.Connections <= 0 {
		opt.Connections = 1024
	}
	return &Client{opt: opt, http: &http.Client{Transport: &http.Transport{
		DialContext:         DialerFrom(opt.From).DialContext,
		MaxIdleConns:        opt.Connections,
		MaxIdleConnsPerHost: opt.Connections,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true,
		DisableKeepAlives:   opt.Fresh,
	}}}
}

// DialerFrom returns a dialer whose TCP connections come from the address of this machine, "" for any.
func DialerFrom(ip string) *net.Dialer {
	d := &net.Dialer{Timeout: 10 * time.Second}
	if ip != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(ip)}
	}
	return d
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Sample is the outcome of one request. Times are offsets from the start of the run, durations count from Due.
type Sample struct {
	ID        int             `json:"id"`
	Due       time.Duration   `json:"due_ns"`
	Sent      time.Duration   `json:"sent_ns"`
	Status    int             `json:"status"`
	Endpoint  string          `json:"endpoint,omitempty"` // value of EndpointHeader
	TTFT      time.Duration   `json:"ttft_ns"`            // until the first content byte; 0 = there was none
	Total     time.Duration   `json:"total_ns"`           // until the end, however it ended
	Gaps      []time.Duration `json:"-"`                  // between consecutive content events
	Tokens    int             `json:"tokens"`             // content events, or usage.completion_tokens if not streamed
	Text      string          `json:"-"`                  // text of the stream, if Request.KeepText
	Answer    string          `json:"-"`                  // id of a stream of the Responses API
	Usage     Usage           `json:"usage"`
	Error     string          `json:"error,omitempty"`  // kind of failure; "" = complete answer with status 200
	Detail    string          `json:"detail,omitempty"` // text of the failure
	Left      bool            `json:"left,omitempty"`   // the client left as planned
	Header    http.Header     `json:"header,omitempty"` // the headers named by Options.KeepHeaders
	MaxTokens int             `json:"max_tokens"`       // answer tokens requested
}

// Usage is the token account that the server reported.
type Usage struct {
	Prompt     int `json:"prompt_tokens"`
	Cached     int `json:"cached_tokens"`
	Completion int `json:"completion_tokens"`
}

// OK reports whether the request got a complete answer with status 200.
func (s *Sample) OK() bool { return s.Error == "" && !s.Left }

// Do sends one request now and reads its answer. Durations in the sample count from start+q.Due.
func (c *Client) Do(ctx context.Context, q *Request, start time.Time) Sample {
	ctx, cancel := context.WithTimeout(ctx, c.opt.Timeout)
	defer cancel()
	x := &exchange{c: c, q: q, due: start.Add(q.Due), cancel: cancel}
	x.s = Sample{ID: q.ID, Due: q.Due, Sent: time.Since(start), MaxTokens: q.MaxTokens}
	x.run(ctx)
	x.s.Total = time.Since(x.due)
	if x.s.Left {
		x.s.Error, x.s.Detail = "", ""
	}
	if c.opt.Seen != nil {
		c.seen.Lock()
		defer c.seen.Unlock()
		c.opt.Seen(x.s)
	}
	return x.s
}

// exchange is one request under way.
type exchange struct {
	c      *Client
	q      *Request
	s      Sample
	due    time.Time
	last   time.Time // last content event
	cancel context.CancelFunc
	left   chan struct{} // closed by a leave that another goroutine carries out
}

func (x *exchange) run(ctx context.Context) {
	x.left = make(chan struct{})
	req, err := x.request(ctx)
	if err != nil {
		x.fail(ErrMalformed, err)
		return
	}
	res, err := x.c.http.Do(req)
	if x.hasLeft() {
		x.s.Left = true
	}
	if err != nil {
		x.fail(transportError(ctx, err), err)
		return
	}
	defer func() { _ = res.Body.Close() }()
	x.headers(res)
	x.answer(ctx, res)
}

func (x *exchange) request(ctx context.Context) (*http.Request, error) {
	body, length := x.q.bodyReader(ctx, x.leave)
	req, err := http.NewRequestWithContext(x.traced(ctx), http.MethodPost, x.c.opt.URL, body)
	if err != nil {
		return nil, err
	}
	if x.q.Path != "" {
		if req.URL, err = req.URL.Parse(x.q.Path); err != nil {
			return nil, err
		}
	}
	req.ContentLength = length
	maps.Copy(req.Header, x.c.opt.Header)
	maps.Copy(req.Header, x.q.Header)
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}

// answer reads the answer behind its headers, as far as the client does.
func (x *exchange) answer(ctx context.Context, res *http.Response) {
	switch {
	case x.q.Leave.At == BeforeFirstByte: // the answer overtook the leave; none of it is read
		x.s.Left = true
		x.cancel()
	case x.q.Leave.At == AfterHeaders:
		x.leaveLater(ctx)
	case res.StatusCode != http.StatusOK:
		x.failStatus(res)
	case x.q.Stream:
		x.stream(ctx, res.Body)
	default:
		x.whole(ctx, res.Body)
	}
}

// traced adds the trace that lets a client leave after its request is written.
func (x *exchange) traced(ctx context.Context) context.Context {
	if x.q.Leave.At != BeforeFirstByte {
		return ctx
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
		time.AfterFunc(x.q.Leave.After, x.leave)
	}})
}

// leave closes the connection from outside the reading goroutine. It runs at most once: a body is read once, and a
// request that leaves is written once.
func (x *exchange) leave() {
	close(x.left)
	x.cancel()
}

// leaveLater lets a client leave that reads no more, when its time has come.
func (x *exchange) leaveLater(ctx context.Context) {
	x.s.Left = true
	_ = wait.For(ctx, x.q.Leave.After)
	x.cancel()
}

func (x *exchange) hasLeft() bool {
	select {
	case <-x.left:
		return true
	default:
		return false
	}
}

func (x *exchange) headers(res *http.Response) {
	x.s.Status = res.StatusCode
	x.s.Endpoint = res.Header.Get(EndpointHeader)
	for _, name := range x.c.opt.KeepHeaders {
		if v := res.Header.Values(name); len(v) > 0 {
			if x.s.Header == nil {
				x.s.Header = http.Header{}
			}
			x.s.Header[http.CanonicalHeaderKey(name)] = v
		}
	}
}

func (x *exchange) fail(kind string, err error) {
	x.s.Error = kind
	if err != nil {
		x.s.Detail = err.Error()
	}
}

func (x *exchange) failStatus(res *http.Response) {
	x.s.Error = fmt.Sprintf("status_%d", res.StatusCode)
	text, _ := io.ReadAll(io.LimitReader(res.Body, 4096)) // the detail is a courtesy: the status is the failure
	x.s.Detail = strings.TrimSpace(string(text))
}

// first records the first part of the answer.
func (x *exchange) first(now time.Time) {
	x.s.TTFT = now.Sub(x.due)
	if x.q.First != nil {
		x.q.First()
	}
}

// content counts one piece of the answer.
func (x *exchange) content() {
	now := time.Now()
	if x.s.Tokens == 0 {
		x.first(now)
	} else {
		x.s.Gaps = append(x.s.Gaps, now.Sub(x.last))
	}
	x.last = now
	x.s.Tokens++
}

func (x *exchange) stream(ctx context.Context, body io.Reader) {
	if x.q.MaxTokens > 1 {
		x.s.Gaps = make([]time.Duration, 0, min(x.q.MaxTokens, 4096))
	}
	leaveAt := 0
	if x.q.Leave.At == MidStream {
		leaveAt = max(1, x.q.Leave.Events)
	}
	var text strings.Builder
	done, err := readEvents(body, func(ev event) bool {
		if ev.failed {
			x.fail(ErrEngine, errors.New(ev.detail))
		}
		if ev.usage != (Usage{}) {
			x.s.Usage = ev.usage
		}
		x.s.Answer += ev.id
		if ev.text != "" {
			x.content()
		}
		if x.q.KeepText {
			text.WriteString(ev.text)
		}
		return leaveAt == 0 || x.s.Tokens < leaveAt
	})
	x.s.Text = text.String()
	if leaveAt > 0 && x.s.Tokens >= leaveAt {
		x.leaveLater(ctx)
		return
	}
	x.streamEnded(ctx, done, err)
}

// streamEnded records what is wrong with a stream that has ended; done is whether its last event was [DONE].
func (x *exchange) streamEnded(ctx context.Context, done bool, err error) {
	switch {
	case x.s.Error != "":
	case err != nil && ctx.Err() != nil:
		x.fail(transportError(ctx, err), err)
	case errors.Is(err, errMalformedEvent):
		x.fail(ErrMalformed, err)
	case !done:
		x.fail(ErrTruncated, err)
	}
}

func (x *exchange) whole(ctx context.Context, body io.Reader) {
	var first [1]byte
	n, err := io.ReadFull(body, first[:])
	if n == 1 {
		x.first(time.Now())
	}
	var rest bytes.Buffer
	rest.Write(first[:n])
	if err == nil {
		_, err = io.Copy(&rest, io.LimitReader(body, maxAnswer))
	}
	switch {
	case err != nil && ctx.Err() != nil:
		x.fail(transportError(ctx, err), err)
	case err != nil:
		x.fail(ErrTruncated, err)
	default:
		usage, ok := parseAnswer(rest.Bytes())
		if !ok {
			x.fail(ErrMalformed, errors.New("loadgen: the answer is not a completion"))
			return
		}
		x.s.Usage, x.s.Tokens = usage, usage.Completion
	}
}

func transportError(ctx context.Context, err error) string {
	var op *net.OpError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ErrTimeout
	case ctx.Err() != nil:
		return ErrCanceled
	case errors.As(err, &op) && op.Op == "dial", errors.Is(err, syscall.ECONNREFUSED):
		return ErrConnect
	}
	return ErrReset
}
