package core

import (
	"slices"

	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/measured"
	"github.com/warmgate/warmgate/plugin/regions"
	"github.com/warmgate/warmgate/plugin/request"
)

// A trial is a request that is only asked where it would go. It is read and planned as any other; where others are
// counted and sent on, it is answered with what would become of it.

// trial is the gateway's side of such a request: nothing is done to it, and its end is the answer.
type trial struct {
	host.GatewayStream
	of     *Stream
	path   string                     // that it is tried for
	answer func(e *state.Explanation) // nil: the plugin has failed
	done   bool                       // it is answered
}

// Explain makes the request a trial, as one to the path, before its headers came. answer is called once, in the
// request's context, unless its client leaves before: with nil if the plugin has failed.
func (s *Stream) Explain(path string, answer func(e *state.Explanation)) {
	t := &trial{s.Gateway, s, path, answer, false}
	s.Gateway, s.Trial, s.Traits, s.settle = t, true, request.Traits{}, t.settle
}

// Plans returns the plans of the request's choices, for programs that ask what the plugin would do.
func (s *Stream) Plans() (plans []*lb.Plan) {
	for pl := s.first; pl != nil; pl = pl.inside {
		plans = append(plans, &pl.Lease.Reservation.Plan)
	}
	return plans
}

// RequestHeaders implements host.GatewayStream, as do the methods below. Headers for the gateway that answers are not
// the request's.
func (t *trial) RequestHeaders() (headers [][2]string) {
	for _, h := range t.GatewayStream.RequestHeaders() {
		switch {
		case h[0] == ":path":
			h[1] = t.path
		case h[0] == "authorization" || slices.Contains(regions.HopHeaders[:], h[0]) ||
			slices.Contains(regions.ProbeHeaders[:], h[0]):
			continue
		}
		headers = append(headers, h)
	}
	return headers
}

func (t *trial) Steer(string, []string) error         { return nil }
func (t *trial) Unsteer()                             {}
func (t *trial) SetCluster(string, string)            {}
func (t *trial) SetRequestHeader(string, string)      {}
func (t *trial) RemoveRequestHeader(string)           {}
func (t *trial) SetResponseHeader(string, string)     {}
func (t *trial) RemoveResponseHeader(string)          {}
func (t *trial) SetNote([]byte)                       {}
func (t *trial) SetFields([]measured.Field)           {}
func (t *trial) LogFields([]measured.Field)           {}
func (t *trial) Note() string                         { return "" }
func (t *trial) ReleaseHeaders()                      {}
func (t *trial) Resume()                              { t.end() }
func (t *trial) Reply(_ int, _ [][2]string, _ string) { t.end() }

// settle answers the trial if another request would go on. It returns what becomes of it when its callback wants a.
func (t *trial) settle(a host.Action) host.Action {
	switch {
	case a == host.Proceed && t.isDecided():
		t.end()
	case a == host.Proceed: // its store has not answered yet
		return host.Stop
	}
	if t.done {
		return host.Hold
	}
	return a
}

// isDecided reports whether it is known what would become of the request.
func (t *trial) isDecided() bool {
	for pl := t.of.first; pl != nil; pl = pl.inside {
		if !pl.settled {
			return false
		}
	}
	return true
}

// end answers, once. It is called where panics are not caught, or have been.
func (t *trial) end() {
	if t.done {
		return
	}
	t.done, t.of.answer = true, t
	t.of.plugin.VM.Guard("an explanation", func() {
		e := t.explanation()
		for pl := t.of.first; pl != nil; pl = pl.inside {
			pl.Body.StopReading()
			pl.Gone()
		}
		t.answer(e)
	}, func() { t.answer(nil) })
}

// explanation returns what would become of the request.
func (t *trial) explanation() *state.Explanation {
	v, first := t.of.plugin.VM, t.of.first
	e := &state.Explanation{Format: state.Format, AtMS: v.GW.Wall().Milliseconds()}
	e.Request = request.Shown{Of: &first.Subject}.Trial()
	for pl := first; pl != nil; pl = pl.inside {
		d := pl.foresight.Explain()
		if d.AtMS = e.AtMS; !d.Waits {
			d.Reason = pl.reason.String()
		}
		e.Decisions = append(e.Decisions, d)
	}
	return e
}

// Read implements host.Answer, as do the methods below, for a trial that is answered.
func (t *trial) Read(int, bool) host.Action { return host.Hold }
func (t *trial) Late()                      {}
func (t *trial) Left()                      {}
func (t *trial) Failed() host.Action        { return host.Hold }

var _ host.Answer = (*trial)(nil)
