package placement

import (
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/plugin/response"
)

// Begin is called once for a request that is counted, with the headers of its response, and end when that has no body.
func (s *Serving) Begin(headers [][2]string, end bool) {
	pl := s.Of
	s.followServed()
	pl.charge.restrict(headers)
	status := pl.Response.Status
	if pl.Phase == PhaseLeased && status > 0 && status < 400 && !pl.Idle() { // still leased: not misrouted
		pl.Lease.trackResponse(true)
	}
	s.ReadAs(headers, end)
}

// ReadAs has the body of the response read as what the request and its headers say; end: it has none.
func (s *Serving) ReadAs(headers [][2]string, end bool) {
	pl := s.Of
	r, l := &pl.Response, &pl.Lease
	r.Use = response.Use{
		Addr: l.Addr, PlacedAt: pl.placedAt(), Requested: pl.Prompt.Work.Info.Stream, Exact: pl.Config.AmongClusters(),
		Learns: pl.Phase == PhaseLeased, Counts: s.Measures && pl.Config.Telemetry.ReadAnswers,
	}
	if !r.IsGood() || pl.Idle() { // of that, no answer says anything
		return
	}
	r.Usage = s.readsUsage()
	if r.Status == 200 && pl.Computes() && pl.Traits.Value(":method") == "POST" { // what is stored may be a page
		r.API = answer.APIOf(pl.Traits.Path)
	}
	r.Begin(headers, end)
}

// ReadReport takes over the load report of the response, which is that of who serves the request.
func (s *Serving) ReadReport() {
	pl := s.Of
	report, addr := pl.Metrics.TakeReport(pl.Gateway), pl.Lease.Addr
	if report == "" {
		return
	}
	if addr == "" { // the gateway has chosen
		addr = pl.Gateway.ServedBy()
	}
	if addr != "" {
		pl.Shared.Scraping.AddReport(pl.Lease.Now(), pl.Config, pl.Cluster.Name, addr, report)
	}
}

// Headers reads the headers of the response to a request that is counted or measured, and takes over its status.
func (s *Serving) Headers() [][2]string {
	pl := s.Of
	if pl.Phase != PhaseLeased && !s.Measures {
		return nil
	}
	headers := pl.Gateway.ResponseHeaders()
	for _, h := range headers {
		if h[0] == ":status" {
			pl.Response.Status, _ = strconv.Atoi(h[1])
		}
	}
	return headers
}

// IsInformational reports whether a status is one that is followed by the response itself, such as early hints.
func IsInformational(status int) bool { return status >= 100 && status < 200 && status != 101 }

// AnswerGoesOn is called for every part of the response's body: size bytes.
func (s *Serving) AnswerGoesOn(size int, end bool) {
	pl := s.Of
	r := &pl.Response
	r.Complete = r.Complete || end
	s.readBegin(size)
	if size > 0 && r.Retry != nil {
		pl.charge.readRetry(size)
	}
	if at, begins := r.GoOn(size, end); begins && r.Streamed && pl.Phase == PhaseLeased {
		s.firstToken(at)
	}
}

// ReadsBegin reports whether more of the beginning of the answer is to be read.
func (s *Serving) ReadsBegin() bool {
	pl := s.Of
	return pl.Kept.Makes || pl.Phase == PhaseLeased && pl.Facts.ReadsRefusal(pl.Response.Status)
}

// readBegin takes the part of an answer that is passing, size bytes, and records what the endpoint has made.
func (s *Serving) readBegin(size int) {
	pl := s.Of
	l, r := &pl.Lease, &pl.Response
	if pl.Phase != PhaseLeased {
		return
	}
	if pl.Facts.ReadRefusal(size, r.Status); !r.IsGood() {
		return
	}
	for _, made := range pl.Kept.Learn(size) {
		plan := lb.Plan{Scope: l.Reservation.Plan.Scope, Prefix: made}
		l.store.RecordPrompt(l.Now(), l.Reservation.id, &plan, l.Addr)
	}
}

// readsUsage reports whether the usage in the response matters.
func (s *Serving) readsUsage() bool {
	pl := s.Of
	r := &pl.Response
	return pl.Phase == PhaseLeased && r.IsGood() && !r.Encoded &&
		(pl.Prompt.Work.Sampled || pl.Prompt.Chain.HasBlocks() || pl.Lease.Budget.Target.Addr != "" ||
			pl.Wait.sharesTokens() || pl.What == prompt.Quiet)
}

// firstToken is called when the first token of a stream has come: what remains in flight is the output. An answer in
// one piece has no such moment.
func (s *Serving) firstToken(at time.Duration) {
	pl := s.Of
	if a := pl.Response.Answer; a == nil || !a.Vain() {
		s.measurePush(at, true)
	}
	if pl.Lease.Tokens > pl.Prompt.Work.Output {
		pl.Lease.amend("", pl.Prompt.Work.Output)
	}
	if pl.Prompt.Chain != nil {
		pl.Response.TTFT = max(1, at-pl.Prompt.Chain.Planned) // 0 within one tick, but known
	}
}

// measurePush has an answer show how many requests the endpoint runs without a queue: when it has begun, if it is
// streamed, and when it has ended.
func (s *Serving) measurePush(at time.Duration, begun bool) {
	pl := s.Of
	l := &pl.Lease
	if pl.Config.Push != push.Pending || !pl.Computes() || l.Addr != l.Chosen || pl.Config.Shadow ||
		pl.Response.Status >= 300 {
		return
	}
	pl.Cluster.Limits.Observe(at, push.Answer{
		Addr: l.Addr, PlacedAt: pl.placedAt(), Inflight: l.Load,
		Begun: begun, Streamed: pl.Response.Streamed && !begun, Bytes: pl.Response.Bytes,
	})
}
