package core

import (
	"strings"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/prompt"
)

// The body of a good answer is read until its first token, so that what only announces one does not count as one, and
// at its end: an error may come under status 200. What is between matters for usage alone.

const (
	// readWithin is how many bytes are read at once: they fit into memory that is used again.
	readWithin = 4 << 10
	// suspectFor is for how long all streams of an endpoint are read to their ends, after one that had none.
	suspectFor = time.Minute
	// maxSuspects is how many such endpoints of a cluster are remembered.
	maxSuspects = 256
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

// readAs decides by the headers of the response whether its body is read, and how; end: it has none. Whether an answer
// is a stream is its own word: some requests do not say it, and some servers do as they like.
func (pl *placement) readAs(headers [][2]string, end bool) {
	r := &pl.response
	if r.status < 200 || r.status >= 300 || pl.idle() { // of that, no answer says anything
		return
	}
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
	if r.status == 200 && pl.computes() && pl.traits.value(":method") == "POST" { // what is stored may be a page
		r.api = answer.APIOf(pl.traits.path)
	}
	if end {
		r.answered = pl.plugin.vm.ticks.lastTick
		return
	}
	if encoding != "" && !strings.EqualFold(encoding, "identity") {
		if pl.readsUsage() {
			pl.plugin.vm.stats.count(statEncoded, 1)
		}
		r.encoded = true
		return
	}
	r.text = strings.HasPrefix(kind, "text/") && !r.lines
	r.reads = r.lines || kind == "" || strings.Contains(kind, "json") ||
		r.api != answer.OtherAPI && (strings.HasPrefix(kind, "text/") || kind == "application/octet-stream")
}

// isInAPI reports whether the answer has to be in an API that is known: by the path of the request, and because other
// answers of the cluster to such calls were.
func (pl *placement) isInAPI() bool {
	return pl.response.api != answer.OtherAPI && pl.cluster.outputs>>pl.response.api&1 > 0
}

// learnOutput is called when the answer has begun.
func (pl *placement) learnOutput() {
	if r := &pl.response; r.api != answer.OtherAPI && r.answer != nil && r.answer.HasOutput() {
		pl.cluster.outputs |= 1 << r.api
	}
}

// streams reports whether the answer is a stream. Of what cannot be read, the request's word counts.
func (pl *placement) streams() bool {
	r := &pl.response
	switch {
	case r.lines:
		return true
	case r.answer == nil || r.answer.IsOther():
		return pl.work.streamed
	}
	return r.answer.Streams()
}

// readAnswer reads the part of the response that is passing, if it is read.
func (pl *placement) readAnswer(size int) {
	r := &pl.response
	if r.retry != nil {
		pl.readRetry(size)
	}
	if !r.reads || pl.phase != phaseLeased {
		r.unread = true
		return
	}
	if r.answer == nil {
		r.answer = &answer.Reader{}
		if r.lines {
			r.answer.ByLines()
		}
		if pl.isInAPI() {
			r.answer.Expect()
		}
		if !pl.readsUsage() {
			r.answer.WithoutUsage()
		}
	}
	pl.readBytes(size)
	if r.dataAt > 0 {
		pl.secondEvent()
	}
}

// readBytes reads size bytes that are passing: all of them until the answer has begun, then the last ones.
func (pl *placement) readBytes(size int) {
	r, at := &pl.response, 0
	for at < size && !r.answer.Begun() {
		text := pl.ResponseBody(at, readWithin)
		if len(text) == 0 {
			break
		}
		r.answer.Read(text)
		at += len(text)
	}
	if at >= size || at > 0 && !pl.readsToEnd() {
		r.unread = r.unread || at < size
		return
	}
	begin := max(at, size-usageWithin)
	if begin > at {
		r.answer.Skip()
	}
	r.answer.Read(pl.ResponseBody(begin, usageWithin))
}

// hasBegun reports whether the answer has begun, and when: it shows output, or ends. In an API that is not known it has
// with the first event, or with the second one where the first only announces answers: see announcements.
func (pl *placement) hasBegun(end bool) (at time.Duration, begun bool) {
	v, r := pl.plugin.vm, &pl.response
	if pl.cfg.AmongClusters() {
		v.ReadClock()
	}
	if !r.reads || end || r.answer != nil && r.answer.Begun() {
		return v.now(), true
	}
	n := 0
	if r.answer != nil {
		n = r.answer.Data()
	}
	if n == 0 {
		return 0, false
	}
	if n == 1 && r.dataAt == 0 {
		r.dataAt = v.ReadClock()
	}
	return v.now(), n > 1 || !pl.cluster.announces.first()
}

// secondEvent is called for each part of an answer in an API that is not known, as long as one event of it has come.
func (pl *placement) secondEvent() {
	r := &pl.response
	if r.answer.Data() == 1 && !r.answer.Begun() {
		return
	}
	pl.cluster.announces.second(r.dataAt-pl.placedAt(), pl.plugin.vm.ReadClock()-r.dataAt)
	r.dataAt = 0
	r.answer.Settle()
	r.reads = pl.readsToEnd()
}

// announcements tells for the APIs of a cluster that are not known whether the first event of an answer is output, or
// only announces it: by whether the second one comes late.
type announcements int8

const (
	// lateTimes is how many times as long as the first event the second one takes if it is late.
	lateTimes = 4
	// mostAnnouncements is how many answers more than others have to show the contrary at most.
	mostAnnouncements = 4
)

// first reports whether the first event of an answer only announces it.
func (a announcements) first() bool { return a > 0 }

// second takes over after which times the first and the second event have come.
func (a *announcements) second(took, later time.Duration) {
	if later > lateTimes*max(took, tickPeriod) {
		*a = min(*a+1, mostAnnouncements)
		return
	}
	*a = max(*a-1, -mostAnnouncements)
}

// readsToEnd decides whether an answer that has begun is read to its end. Of streams, the first ones of a cluster are
// and then some of them, and all of an endpoint one of whose streams had no end: reading costs a call of the gateway
// for each part.
func (pl *placement) readsToEnd() bool {
	r, cl := &pl.response, pl.cluster
	if pl.readsUsage() {
		return true
	}
	if !pl.streams() || r.answer == nil {
		return false
	}
	if r.drawn == notDrawn {
		r.drawn = drawnOut
		if until, ok := cl.suspects[pl.lease.addr]; cl.ends.take() || ok && pl.plugin.vm.now() < until {
			r.drawn = drawnIn
		}
	}
	return r.drawn == drawnIn
}

// answerVerdict judges by the content of an answer whose status is good, and reports whether that shows anything but
// success. A stream with output is held to have an end where streams of its cluster have one.
func (pl *placement) answerVerdict() (verdict lb.Verdict, judged bool) {
	r, cl, now := &pl.response, pl.cluster, pl.plugin.vm.now()
	if !r.reached || r.status < 200 || r.status >= 300 || r.encoded {
		return 0, false
	}
	switch a := r.answer; {
	case a != nil:
		if pl.isInAPI() {
			a.Expect()
		}
		if r.outcome = a.Outcome(r.complete, !r.unread); pl.statesFact() {
			r.outcome = answer.Refused
		}
		cl.terminates = cl.terminates || r.complete && a.Terminated()
		if r.drawn == drawnIn {
			cl.ends.read++
		}
	case r.lines && r.complete && !r.unread:
		r.outcome = answer.Unfinished // not even an event
	case pl.isInAPI() && r.complete && !r.unread:
		r.outcome = answer.Empty // not even a body
	}
	if r.outcome == answer.Unfinished && !cl.terminates && r.answer != nil && r.answer.HasOutput() {
		r.outcome = answer.Complete
	}
	if r.outcome == answer.Complete {
		return 0, false
	}
	pl.plugin.vm.stats.countIf(statname.With(statFailed,
		"cluster", cl.name, "endpoint", pl.lease.addr, "reason", answer.OutcomeNames[r.outcome]), 1)
	switch r.outcome {
	case answer.Refused:
		return lb.Rejected, true
	case answer.Overloaded:
		return lb.Overload, true
	}
	if len(cl.suspects) >= maxSuspects {
		clear(cl.suspects)
	}
	cl.suspects[pl.lease.addr] = now + suspectFor
	return lb.Failure, true
}

// statesFact reports whether the answer is an error that says that the endpoint does not have the model, or not with
// such a context. Then it is a fact as it is under the status for it.
func (pl *placement) statesFact() bool {
	r := &pl.response
	if r.outcome == answer.Complete || r.answer.HasOutput() || !pl.isForModel() {
		return false
	}
	text := r.answer.Fault()
	if why, _ := prompt.ReadRefusal(refusedStatus, text); why == prompt.OtherRefusal {
		return false
	}
	pl.facts.refusal = text
	return true
}
