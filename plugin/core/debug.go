package core

import (
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/forward"
	"github.com/warmgate/warmgate/plugin/placement"
)

// This file is how a decision is shown: in the response's debug headers, and in the line for the access log.

// decision is under which reason a request is counted, and the texts that explain it.
type decision struct {
	of      *placement.Placement
	away    *forward.Forwarding // what other regions have to do with that
	reason  lb.Reason
	settled bool // the request is counted under it
}

// setDebugHeaders shows the decision to the client, with debug_headers: true.
func (d *decision) setDebugHeaders() {
	pl := d.of
	if !d.settled || pl.Config == nil || !pl.Config.DebugHeaders {
		return
	}
	pl.Gateway.SetResponseHeader("x-warmgate-reason", d.reason.String())
	if w := &pl.Wait; w.Class != nil {
		pl.Gateway.SetResponseHeader("x-warmgate-class", w.Class.Name)
		pl.Gateway.SetResponseHeader("x-warmgate-wait-ms", w.Millis())
	}
	switch {
	case d.away.Returned:
		pl.Gateway.SetResponseHeader("x-warmgate-host", pl.Lease.Addr)
	case d.away.To != "":
		pl.Gateway.SetResponseHeader("x-warmgate-region", d.away.To)
	}
	if pl.Lease.Chosen == "" {
		return
	}
	where, load, at := "x-warmgate-host", "x-warmgate-load", "x-warmgate-session-at"
	ruleOf, nextOf := "x-warmgate-rule", "x-warmgate-runner-up"
	if pl.Config.AmongClusters() {
		where, load, at = "x-warmgate-cluster", "x-warmgate-cluster-load", "x-warmgate-cluster-session-at"
		ruleOf, nextOf = "x-warmgate-cluster-rule", "x-warmgate-cluster-runner-up"
	}
	pl.Gateway.SetResponseHeader(where, pl.Lease.Chosen)
	pl.Gateway.SetResponseHeader(load, strconv.FormatInt(pl.Lease.Load, 10))
	if pl.Session.Result != "" {
		pl.Gateway.SetResponseHeader(at, pl.Session.Result)
	}
	if c := &pl.Lease.Budget.Target; c.Addr != "" {
		pl.Gateway.SetResponseHeader("x-warmgate-charged-tokens", strconv.FormatInt(c.Tokens, 10))
	}
	if next, rule := pl.Lease.RunnerUp(); rule != "" && pl.Phase == placement.PhaseLeased {
		pl.Gateway.SetResponseHeader(ruleOf, rule)
		if next != "" {
			pl.Gateway.SetResponseHeader(nextOf, next)
		}
	}
	if t := pl.Lease.InTime(); t != "" {
		pl.Gateway.SetResponseHeader("x-warmgate-target", t)
	}
	if pl.Prompt.Chain.HasBlocks() {
		pl.Gateway.SetResponseHeader("x-warmgate-match", strconv.FormatFloat(pl.Prompt.Chain.Cached, 'f', 2, 64))
	}
}

// appendTo appends the decision to a line of the access log.
func (d *decision) appendTo(line []byte) []byte {
	pl := d.of
	l := &pl.Lease
	what, addr, among := "host=", l.Chosen, pl.Config != nil && pl.Config.AmongClusters()
	if among {
		what = "cluster="
	} else if d.away.Returned {
		addr = l.Addr
	}
	line = l.Budget.AppendText(pl.Session.AppendText(appendChoice(line, what, addr, d.reason, l.Load)))
	if !among {
		line = d.away.AppendText(line)
	}
	return line
}

func appendChoice(line []byte, what, addr string, r lb.Reason, load int64) []byte {
	if addr == "" {
		addr = "-"
	}
	line = append(append(line, what...), addr...)
	line = append(append(line, " reason="...), r.String()...)
	if load > 0 {
		line = strconv.AppendInt(append(line, " load="...), load, 10)
	}
	return line
}

// steered reports whether a line that appendTo has written is that of a request that was sent to the chosen endpoint,
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
