package response

import (
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/learned"
	"github.com/warmgate/warmgate/plugin/measured"
	"github.com/warmgate/warmgate/plugin/stats"
)

// The body of a good answer is read until its first token, so that what only announces one does not count as one, and
// at its end: an error may come under status 200. What is between matters for usage, and for what is measured: see
// passing.go.

const (
	// readWithin is how many bytes are read at once: they fit into memory that is used again.
	readWithin = 4 << 10
	// usageWithin is how many bytes from the end of each part of a response are read. Usage is in its last event, or at
	// the end of an answer in one piece.
	usageWithin = 2 << 10
	// countWithin is how many bytes of each part of a stream are read for what is counted of it.
	countWithin = 64 << 10
)

// drawn is what was decided about a stream of which it does not matter whether it is read to its end.
type drawn uint8

const (
	notDrawn drawn = iota
	drawnOut
	drawnIn
)

// lineTypes are the content types of answers that come by lines.
var lineTypes = []string{
	"text/event-stream", "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines",
	"application/jsonlines", "application/stream+json",
}

// State is what has come of the response to a request.
type State struct {
	Status   int           // 0 before it
	Reached  bool          // an endpoint was tried: the response is not the gateway's alone
	Begun    bool          // nothing of the prompt is left to compute
	Streamed bool          // it has begun before its end: it is a stream
	Complete bool          // all of it has passed
	Encoded  bool          // it is compressed
	BegunAt  time.Duration // when nothing of the prompt was left to compute, 0 where it does not matter
	SentAt   time.Duration // when the request was sent on, 0 before
	FirstAt  time.Duration // when a stream has shown its first output, 0 before
	LatestAt time.Duration // when it has shown its latest output
	Gaps     *measured.Gaps
	Outputs  int64         // parts of a stream that have shown output
	Skipped  int           // bytes of a stream that were not counted
	asked    time.Duration // the latest tick when all of the request was sent, 0 before
	answered time.Duration // that when it had begun, without a look at the clock
	TTFT     time.Duration // from the plan to the first token, for prefix_cache
	Bytes    int           // of the body so far
	Parts    int64         // of the body that have passed
	Answer   *answer.Reader
	Outcome  answer.Outcome // by its content, once it is over
	Retry    []byte         // beginning of the body, while that may say when to try again
}

// IsGood reports whether its status is that of an answer.
func (r *State) IsGood() bool { return r.Status >= 200 && r.Status < 300 }

// Reading is how the body of the response to a request is read: by what the request is, and for whom it is counted.
type Reading struct {
	State
	Use
	From    host.GatewayStream
	Env     *host.Env
	Cluster *clusters.Cluster
	drawn   drawn         // whether it is read to its end where only some are
	dataAt  time.Duration // when the only event so far of an API that is not known came, 0 for none
	lines   bool          // it comes by lines, by its headers
	text    bool          // it is a text that is not compressed, and no stream
	reads   bool          // the parts to come are read
	judged  bool          // all of it, by its content
	Unread  bool          // some parts were not read
}

// Use is what an answer is read for.
type Use struct {
	Addr      string        // of the endpoint that answers
	PlacedAt  time.Duration // when it got the request
	Requested bool          // as a stream of tokens
	Learns    bool          // what it shows is learned for its cluster
	Counts    bool          // what passes of it is counted, and timed
	Exact     bool          // when it begins matters to more than a tick
	Usage     bool          // its usage matters
	API       answer.API    // what the answer has to be in, by the path of the request
}

// RequestEnded is called when all of the request was sent.
func (r *Reading) RequestEnded() { r.asked = r.Env.LastTick }

// Took returns how long the answer took to begin once all of the request was sent, in whole ticks, if that is known.
func (r *Reading) Took() (d time.Duration, known bool) {
	return max(0, r.answered-r.asked), r.asked > 0 && r.answered > 0
}

// Begin decides by the headers of the response whether its body is read, and how. Whether an answer is a stream is its
// own word: some requests do not say it, and some servers do as they like.
func (r *Reading) Begin(headers [][2]string, end bool) {
	kind, encoding := "", ""
	for _, h := range headers {
		switch h[0] {
		case "content-type":
			kind = h[1]
		case "content-encoding":
			encoding = h[1]
		}
	}
	kind = strings.ToLower(kind)
	for _, t := range lineTypes {
		r.lines = r.lines || strings.HasPrefix(kind, t)
	}
	if end {
		r.answered = r.Env.LastTick
		return
	}
	if encoding != "" && !strings.EqualFold(encoding, "identity") {
		if r.Usage {
			r.Env.Stats.Count(stats.Encoded, 1)
		}
		r.Encoded, r.Usage = true, false
		return
	}
	r.text = strings.HasPrefix(kind, "text/") && !r.lines
	r.reads = r.lines || kind == "" || strings.Contains(kind, "json") ||
		r.API != answer.OtherAPI && (strings.HasPrefix(kind, "text/") || kind == "application/octet-stream")
}

// Passed counts a part of the body, size bytes, and reports whether it matters to what is known of the answer: a stream
// of tokens comes in thousands of parts.
func (r *Reading) Passed(size int, end bool) (matters bool) {
	if size > 0 {
		r.Parts++
		r.Bytes += size
	}
	return !r.Begun || end || r.reads || r.Counts && r.Streamed || r.Retry != nil
}

// GoOn reads a part of the body, size bytes. It returns when the answer has begun, if it has with this part.
func (r *Reading) GoOn(size int, end bool) (at time.Duration, begins bool) {
	events := r.events()
	switch {
	case size == 0:
	case r.reads:
		r.read(size)
	default:
		r.Unread = true
	}
	if r.Begun {
		r.goesOn(size, events, end)
		return 0, false
	}
	if at, r.Begun = r.hasBegun(end); !r.Begun {
		return 0, false
	}
	r.answered = r.Env.LastTick
	r.learnOutput()
	if r.Exact {
		r.BegunAt = at
	}
	r.Streamed = !end && r.streams()
	r.reads = r.reads && (r.dataAt > 0 || r.toEnd())
	r.firstOutput()
	return at, true
}

// isInAPI reports whether the answer has to be in an API that is known: by the path of the request, and because other
// answers of the cluster to such calls were.
func (r *Reading) isInAPI() bool {
	return r.Learns && r.API != answer.OtherAPI && r.Cluster.Outputs>>r.API&1 > 0
}

// learnOutput is called when the answer has begun.
func (r *Reading) learnOutput() {
	if r.Learns && r.API != answer.OtherAPI && r.Answer != nil && r.Answer.HasOutput() {
		r.Cluster.Outputs |= 1 << r.API
	}
}

// streams reports whether the answer is a stream. Of what cannot be read, the request's word counts.
func (r *Reading) streams() bool {
	switch {
	case r.lines:
		return true
	case r.Answer == nil || r.Answer.IsOther():
		return r.Requested
	}
	return r.Answer.Streams()
}

// read reads the part of the response that is passing.
func (r *Reading) read(size int) {
	if r.Answer == nil {
		r.Answer = &answer.Reader{}
		if r.lines {
			r.Answer.ByLines()
		}
		if r.isInAPI() {
			r.Answer.Expect()
		}
		switch {
		case r.Counts:
			r.Answer.Count()
		case !r.Usage:
			r.Answer.WithoutUsage()
		}
	}
	r.readBytes(size)
	if r.dataAt > 0 {
		r.secondEvent()
	}
}

// readBytes reads size bytes that are passing: all of them until the answer has begun, and of a stream whose events are
// counted; then the last ones.
func (r *Reading) readBytes(size int) {
	at := 0
	for at < size && (!r.Answer.Begun() || r.Counts && at < countWithin && r.Answer.Streams()) {
		text := r.From.ResponseBody(at, readWithin)
		if len(text) == 0 {
			break
		}
		r.Answer.Read(text)
		at += len(text)
	}
	if at >= size || at > 0 && !r.toEnd() {
		r.Unread = r.Unread || at < size
		return
	}
	begin := max(at, size-usageWithin)
	if begin > at {
		r.Answer.Skip()
		r.Skipped += begin - at
	}
	r.Answer.Read(r.From.ResponseBody(begin, usageWithin))
}

// hasBegun reports whether the answer has begun, and when: it shows output, or ends. In an API that is not known it has
// with the first event, or with the second one where the first only announces answers: see learned.Announcements.
func (r *Reading) hasBegun(end bool) (at time.Duration, begun bool) {
	if r.Exact {
		r.Env.ReadClock()
	}
	if !r.reads || end || r.Answer != nil && r.Answer.Begun() {
		return r.Env.Clock(), true
	}
	n := 0
	if r.Answer != nil {
		n = r.Answer.Data()
	}
	if n == 0 {
		return 0, false
	}
	if n == 1 && r.dataAt == 0 && r.Learns {
		r.dataAt = r.Env.ReadClock()
	}
	return r.Env.Clock(), n > 1 || !r.Learns || !r.Cluster.Announces.First()
}

// secondEvent is called for each part of an answer in an API that is not known, as long as one event of it has come.
func (r *Reading) secondEvent() {
	if r.Answer.Data() == 1 && !r.Answer.Begun() {
		return
	}
	r.Cluster.Announces.Second(r.dataAt-r.PlacedAt, r.Env.ReadClock()-r.dataAt)
	r.dataAt = 0
	r.Answer.Settle()
	r.reads = r.toEnd()
}

// toEnd decides whether an answer that has begun is read to its end. Of streams, the first ones of a cluster are and
// then some of them, and all of an endpoint one of whose streams had no end: reading costs a call of the gateway for
// each part.
func (r *Reading) toEnd() bool {
	if r.Usage || r.Counts {
		return true
	}
	if !r.Learns || !r.streams() || r.Answer == nil {
		return false
	}
	if r.drawn == notDrawn {
		r.drawn = drawnOut
		if r.Cluster.Ends.Take() || r.Cluster.IsSuspect(r.Env.Clock(), r.Addr) {
			r.drawn = drawnIn
		}
	}
	return r.drawn == drawnIn
}

// Judge sets the outcome of an answer whose status is good, by its content. A stream with output is held to have an end
// where streams of its cluster have one. One that is complete is judged once: what is learned of it counts once.
func (r *Reading) Judge() {
	if r.judged {
		return
	}
	r.judged = r.Complete
	switch a := r.Answer; {
	case a != nil:
		if r.isInAPI() {
			a.Expect()
		}
		r.Outcome = a.Outcome(r.Complete, !r.Unread)
		if r.Learns {
			r.Cluster.Terminates = r.Cluster.Terminates || r.Complete && a.Terminated()
		}
		if r.drawn == drawnIn {
			r.Cluster.Ends.HasRead()
		}
	case r.lines && r.Complete && !r.Unread:
		r.Outcome = answer.Unfinished // not even an event
	case r.isInAPI() && r.Complete && !r.Unread:
		r.Outcome = answer.Empty // not even a body
	}
	ends := r.Learns && r.Cluster.Terminates
	if r.Outcome == answer.Unfinished && !ends && r.Answer != nil && r.Answer.HasOutput() {
		r.Outcome = answer.Complete
	}
}

// Shows returns what the answer, which has ended, shows of the work behind it.
func (r *Reading) Shows() learned.Shown {
	a := r.Answer
	switch {
	case a == nil && (r.text && r.Parts <= 1 || r.Bytes == 0): // in several parts it may be what a model writes
		return learned.ShowsNothing
	case a == nil || a.IsOther():
		return learned.ShowsUnknown
	}
	switch u, _ := a.Usage(r.Complete); {
	case u.Prompt+u.Output > 0 || a.Streams() && a.HasOutput():
		return learned.ShowsWork
	case a.Streams() || a.HasOutput():
		return learned.ShowsOutput
	case r.Unread:
		return learned.ShowsUnknown
	}
	return learned.ShowsNothing
}
