package core

import (
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/lb"
)

// This file is how a decision is shown: in the response's debug headers, and as the text for the access log.

// setDebugHeaders shows the decision to the client, with debug_headers: true.
func (s *Stream) setDebugHeaders() {
	if !s.settled || s.cfg == nil || !s.cfg.DebugHeaders {
		return
	}
	s.SetResponseHeader("x-warmgate-reason", s.reason.String())
	if w := &s.wait; w.class != nil {
		s.SetResponseHeader("x-warmgate-class", w.class.Name)
		s.SetResponseHeader("x-warmgate-wait-ms", w.millis())
	}
	switch {
	case s.region.returned:
		s.SetResponseHeader("x-warmgate-host", s.lease.addr)
	case s.region.to != "":
		s.SetResponseHeader("x-warmgate-region", s.region.to)
	}
	if s.lease.chosen == "" {
		return
	}
	where, load, at := "x-warmgate-host", "x-warmgate-load", "x-warmgate-session-at"
	if s.cfg.AmongClusters() {
		where, load, at = "x-warmgate-cluster", "x-warmgate-cluster-load", "x-warmgate-cluster-session-at"
	}
	s.SetResponseHeader(where, s.lease.chosen)
	s.SetResponseHeader(load, strconv.FormatInt(s.lease.load, 10))
	if s.session.result != "" {
		s.SetResponseHeader(at, s.session.result)
	}
	if c := &s.budget.target; c.addr != "" {
		s.SetResponseHeader("x-warmgate-charged-tokens", strconv.FormatInt(c.tokens, 10))
	}
	if s.chain.hasBlocks() {
		s.SetResponseHeader("x-warmgate-match", strconv.FormatFloat(s.chain.cached, 'f', 2, 64))
	}
}

// describe returns the decision in one line, for the access log.
func (s *Stream) describe() string {
	if s.cfg != nil && s.cfg.AmongClusters() {
		return describe("cluster=", s.lease.chosen, s.reason, s.lease.load) + s.session.text() + s.budget.text()
	}
	host := s.lease.chosen
	if s.region.returned {
		host = s.lease.addr
	}
	return describe("host=", host, s.reason, s.lease.load) + s.session.text() + s.budget.text() + s.region.text()
}

func describe(what, addr string, r lb.Reason, load int64) string {
	const others = len(" reason=no_cluster_available load=1000000")
	var b strings.Builder
	b.Grow(len(what) + len(addr) + others)
	b.WriteString(what)
	if addr == "" {
		addr = "-"
	}
	b.WriteString(addr)
	b.WriteString(" reason=")
	b.WriteString(r.String())
	if load > 0 {
		b.WriteString(" load=")
		b.WriteString(strconv.FormatInt(load, 10))
	}
	return b.String()
}

// steered reports whether a text that describe has written is that of a request that was sent to the chosen endpoint,
// or to another region.
func steered(note string) bool {
	_, reason, _ := strings.Cut(note, " reason=")
	for _, r := range [...]lb.Reason{lb.ReasonChosen, lb.ReasonStateLost, lb.ReasonForwarded, lb.ReasonAdopted} {
		if strings.HasPrefix(reason, r.String()) {
			return true
		}
	}
	return strings.HasPrefix(reason, "body_")
}
