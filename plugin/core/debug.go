package core

import (
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/lb"
)

// This file is how a decision is shown: in the response's debug headers, and as the text for the access log.

// debugging is the texts that explain what was chosen.
type debugging struct{ pl *choice }

// setDebugHeaders shows the decision to the client, with debug_headers: true.
func (d *debugging) setDebugHeaders() {
	pl := d.pl
	if !pl.settled || pl.Config == nil || !pl.Config.DebugHeaders {
		return
	}
	pl.Gateway.SetResponseHeader("x-warmgate-reason", pl.reason.String())
	if w := &pl.wait; w.class != nil {
		pl.Gateway.SetResponseHeader("x-warmgate-class", w.class.Name)
		pl.Gateway.SetResponseHeader("x-warmgate-wait-ms", w.millis())
	}
	switch {
	case pl.region.returned:
		pl.Gateway.SetResponseHeader("x-warmgate-host", pl.lease.addr)
	case pl.region.to != "":
		pl.Gateway.SetResponseHeader("x-warmgate-region", pl.region.to)
	}
	if pl.lease.chosen == "" {
		return
	}
	where, load, at := "x-warmgate-host", "x-warmgate-load", "x-warmgate-session-at"
	if pl.Config.AmongClusters() {
		where, load, at = "x-warmgate-cluster", "x-warmgate-cluster-load", "x-warmgate-cluster-session-at"
	}
	pl.Gateway.SetResponseHeader(where, pl.lease.chosen)
	pl.Gateway.SetResponseHeader(load, strconv.FormatInt(pl.lease.load, 10))
	if pl.Session.Result != "" {
		pl.Gateway.SetResponseHeader(at, pl.Session.Result)
	}
	if c := &pl.lease.budget.target; c.addr != "" {
		pl.Gateway.SetResponseHeader("x-warmgate-charged-tokens", strconv.FormatInt(c.tokens, 10))
	}
	if pl.Prompt.Chain.HasBlocks() {
		pl.Gateway.SetResponseHeader("x-warmgate-match", strconv.FormatFloat(pl.Prompt.Chain.Cached, 'f', 2, 64))
	}
}

// describe returns the decision in one line, for the access log.
func (d *debugging) describe() string {
	pl := d.pl
	l := &pl.lease
	if pl.Config != nil && pl.Config.AmongClusters() {
		return describe("cluster=", l.chosen, pl.reason, l.load) + pl.Session.Text() + l.budget.text()
	}
	host := l.chosen
	if pl.region.returned {
		host = l.addr
	}
	return describe("host=", host, pl.reason, l.load) + pl.Session.Text() + l.budget.text() + pl.region.text()
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
