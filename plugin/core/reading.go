package core

import (
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/learned"
	"github.com/warmgate/warmgate/plugin/stats"
)

// The body of a good answer is read until its first token, so that what only announces one does not count as one, and
// at its end: an error may come under status 200. What is between matters for usage alone.

const (
	// readWithin is how many bytes are read at once: they fit into memory that is used again.
	readWithin = 4 << 10
	// usageWithin is how many bytes from the end of each part of a response are read. Usage is in its last event, or at
	// the end of an answer in one piece.
	usageWithin = 2 << 10
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

// response is what has come of the response to a request.
type response struct {
	reached  bool          // an endpoint was tried: the response is not the gateway's alone
	status   int           // 0 before it
	begun    bool          // nothing of the prompt is left to compute: see hasBegun
	begunAt  time.Duration // when that was, 0 where it does not matter
	asked    time.Duration // the latest tick when all of the request was sent, 0 before
	answered time.Duration // that when it had begun, without a look at the clock
	streamed bool          // it has begun before its end: it is a stream
	bytes    int           // of the body so far
	ttft     time.Duration // from the plan to the first token, for prefix_cache
	complete bool          // all of it has passed
	encoded  bool          // it is compressed
	parts    int64         // of the body that have passed
	answer   *answer.Reader
	outcome  answer.Outcome // by its content, once it is over
	retry    []byte         // beginning of the body, while that may say when to try again
}

// reading is how the body of the response to a request is read: by what the request is, and for whom it is counted.
type reading struct {
	response
	use
	from    host.GatewayStream
	env     *host.Env
	cluster *clusters.Cluster
	drawn   drawn         // whether it is read to its end where only some are
	dataAt  time.Duration // when the only event so far of an API that is not known came, 0 for none
	lines   bool          // it comes by lines, by its headers
	text    bool          // it is a text that is not compressed, and no stream
	reads   bool          // the parts to come are read
	unread  bool          // some parts were not
}

// use is what an answer is read for.
type use struct {
	addr      string        // of the endpoint that answers
	placedAt  time.Duration // when it got the request
	requested bool          // as a stream of tokens
	exact     bool          // when it begins matters to more than a tick
	usage     bool          // its usage matters
	api       answer.API    // what the answer has to be in, by the path of the request
}

// requestEnded is called when all of the request was sent.
func (r *reading) requestEnded() { r.asked = r.env.LastTick }

// took returns how long the answer took to begin once all of the request was sent, in whole ticks, if that is known.
func (r *reading) took() (d time.Duration, known bool) {
	return max(0, r.answered-r.asked), r.asked > 0 && r.answered > 0
}

// begin decides by the headers of the response whether its body is read, and how. Whether an answer is a stream is its
// own word: some requests do not say it, and some servers do as they like.
func (r *reading) begin(headers [][2]string, end bool) {
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
		r.answered = r.env.LastTick
		return
	}
	if encoding != "" && !strings.EqualFold(encoding, "identity") {
		if r.usage {
			r.env.Stats.Count(stats.Encoded, 1)
		}
		r.encoded, r.usage = true, false
		return
	}
	r.text = strings.HasPrefix(kind, "text/") && !r.lines
	r.reads = r.lines || kind == "" || strings.Contains(kind, "json") ||
		r.api != answer.OtherAPI && (strings.HasPrefix(kind, "text/") || kind == "application/octet-stream")
}

// passed counts a part of the body, size bytes, and reports whether it matters to what is known of the answer: a stream
// of tokens comes in thousands of parts.
func (r *reading) passed(size int, end bool) (matters bool) {
	if size > 0 {
		r.parts++
		r.bytes += size
	}
	return !r.begun || end || r.reads || r.retry != nil
}

// goOn reads a part of the body, size bytes. It returns when the answer has begun, if it has with this part. counted is
// whether the request is counted at the endpoint that answers.
func (r *reading) goOn(size int, end, counted bool) (at time.Duration, begins bool) {
	switch {
	case size == 0:
	case r.reads && counted:
		r.read(size)
	default:
		r.unread = true
	}
	if r.begun || !counted {
		return 0, false
	}
	if at, r.begun = r.hasBegun(end); !r.begun {
		return 0, false
	}
	r.answered = r.env.LastTick
	r.learnOutput()
	if r.exact {
		r.begunAt = at
	}
	r.streamed = !end && r.streams()
	r.reads = r.reads && (r.dataAt > 0 || r.toEnd())
	return at, true
}

// isInAPI reports whether the answer has to be in an API that is known: by the path of the request, and because other
// answers of the cluster to such calls were.
func (r *reading) isInAPI() bool { return r.api != answer.OtherAPI && r.cluster.Outputs>>r.api&1 > 0 }

// learnOutput is called when the answer has begun.
func (r *reading) learnOutput() {
	if r.api != answer.OtherAPI && r.answer != nil && r.answer.HasOutput() {
		r.cluster.Outputs |= 1 << r.api
	}
}

// streams reports whether the answer is a stream. Of what cannot be read, the request's word counts.
func (r *reading) streams() bool {
	switch {
	case r.lines:
		return true
	case r.answer == nil || r.answer.IsOther():
		return r.requested
	}
	return r.answer.Streams()
}

// read reads the part of the response that is passing.
func (r *reading) read(size int) {
	if r.answer == nil {
		r.answer = &answer.Reader{}
		if r.lines {
			r.answer.ByLines()
		}
		if r.isInAPI() {
			r.answer.Expect()
		}
		if !r.usage {
			r.answer.WithoutUsage()
		}
	}
	r.readBytes(size)
	if r.dataAt > 0 {
		r.secondEvent()
	}
}

// readBytes reads size bytes that are passing: all of them until the answer has begun, then the last ones.
func (r *reading) readBytes(size int) {
	at := 0
	for at < size && !r.answer.Begun() {
		text := r.from.ResponseBody(at, readWithin)
		if len(text) == 0 {
			break
		}
		r.answer.Read(text)
		at += len(text)
	}
	if at >= size || at > 0 && !r.toEnd() {
		r.unread = r.unread || at < size
		return
	}
	begin := max(at, size-usageWithin)
	if begin > at {
		r.answer.Skip()
	}
	r.answer.Read(r.from.ResponseBody(begin, usageWithin))
}

// hasBegun reports whether the answer has begun, and when: it shows output, or ends. In an API that is not known it has
// with the first event, or with the second one where the first only announces answers: see announcements.
func (r *reading) hasBegun(end bool) (at time.Duration, begun bool) {
	if r.exact {
		r.env.ReadClock()
	}
	if !r.reads || end || r.answer != nil && r.answer.Begun() {
		return r.env.Clock(), true
	}
	n := 0
	if r.answer != nil {
		n = r.answer.Data()
	}
	if n == 0 {
		return 0, false
	}
	if n == 1 && r.dataAt == 0 {
		r.dataAt = r.env.ReadClock()
	}
	return r.env.Clock(), n > 1 || !r.cluster.Announces.First()
}

// secondEvent is called for each part of an answer in an API that is not known, as long as one event of it has come.
func (r *reading) secondEvent() {
	if r.answer.Data() == 1 && !r.answer.Begun() {
		return
	}
	r.cluster.Announces.Second(r.dataAt-r.placedAt, r.env.ReadClock()-r.dataAt)
	r.dataAt = 0
	r.answer.Settle()
	r.reads = r.toEnd()
}

// toEnd decides whether an answer that has begun is read to its end. Of streams, the first ones of a cluster are and
// then some of them, and all of an endpoint one of whose streams had no end: reading costs a call of the gateway for
// each part.
func (r *reading) toEnd() bool {
	if r.usage {
		return true
	}
	if !r.streams() || r.answer == nil {
		return false
	}
	if r.drawn == notDrawn {
		r.drawn = drawnOut
		if r.cluster.Ends.Take() || r.cluster.IsSuspect(r.env.Clock(), r.addr) {
			r.drawn = drawnIn
		}
	}
	return r.drawn == drawnIn
}

// judge sets the outcome of an answer whose status is good, by its content. A stream with output is held to have an end
// where streams of its cluster have one.
func (r *reading) judge() {
	switch a := r.answer; {
	case a != nil:
		if r.isInAPI() {
			a.Expect()
		}
		r.outcome = a.Outcome(r.complete, !r.unread)
		r.cluster.Terminates = r.cluster.Terminates || r.complete && a.Terminated()
		if r.drawn == drawnIn {
			r.cluster.Ends.HasRead()
		}
	case r.lines && r.complete && !r.unread:
		r.outcome = answer.Unfinished // not even an event
	case r.isInAPI() && r.complete && !r.unread:
		r.outcome = answer.Empty // not even a body
	}
	if r.outcome == answer.Unfinished && !r.cluster.Terminates && r.answer != nil && r.answer.HasOutput() {
		r.outcome = answer.Complete
	}
}

// shows returns what the answer, which has ended, shows of the work behind it.
func (r *reading) shows() learned.Shown {
	a := r.answer
	switch {
	case a == nil && (r.text && r.parts <= 1 || r.bytes == 0): // in several parts it may be what a model writes
		return learned.ShowsNothing
	case a == nil || a.IsOther():
		return learned.ShowsUnknown
	}
	switch u, _ := a.Usage(r.complete); {
	case u.Prompt+u.Output > 0 || a.Streams() && a.HasOutput():
		return learned.ShowsWork
	case a.Streams() || a.HasOutput():
		return learned.ShowsOutput
	case r.unread:
		return learned.ShowsUnknown
	}
	return learned.ShowsNothing
}
