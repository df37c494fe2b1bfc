package explanation

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/warmgate/warmgate/internal/state"
)

// unread says why not all of a body was read.
var unread = map[string]string{
	"ambiguous":   "it has a member twice, or prompts of several APIs",
	"encoded":     "it is compressed",
	"late":        "the rest came too late",
	"malformed":   "it is no JSON",
	"not_needed":  "nothing in it matters to this configuration",
	"not_shown":   "the gateway does not show the last part",
	"opaque":      "it is no request to inspect",
	"too_complex": "it has too many values",
	"too_long":    "the rest is beyond max_scan_bytes",
}

// excluded says why an endpoint is no candidate.
var excluded = map[string]string{
	"degraded": "degraded, and enough others are healthy", "draining": "draining", "ejected": "ejected",
	"model": "does not have the model", "policy": "left out by the policy",
	"subset": "not in the subset that the request is for", "unhealthy": "unhealthy",
}

// Print prints an explanation for people.
func Print(to io.Writer, e *state.Explanation) error {
	var b strings.Builder
	printRequest(&b, &e.Request)
	for i := range e.Decisions {
		d := &e.Decisions[i]
		fmt.Fprintf(&b, "\n%s in %s\n", plain(cmp.Or(d.Policy, "no policy")), plain(cmp.Or(d.Cluster, "no cluster")))
		printPlan(&b, d)
		printCandidates(&b, d)
		fmt.Fprintf(&b, "  %s\n", verdict(d))
		for _, x := range d.Excluded {
			fmt.Fprintf(&b, "  %s is no candidate: %s\n", plain(x.Addr), plain(cmp.Or(excluded[x.Why], x.Why)))
		}
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// plain returns a text of a gateway without the control characters that may be in it.
func plain(text string) string {
	q := strconv.Quote(text)
	return q[1 : len(q)-1]
}

func printRequest(b *strings.Builder, r *state.Request) {
	facts := []string{plain(cmp.Or(r.API, "an unknown API"))}
	if r.Call != "computes" {
		facts = append(facts, "a call that is "+plain(r.Call))
	}
	if r.Model != "" {
		facts = append(facts, "model "+plain(r.Model))
	}
	if r.Stream {
		facts = append(facts, "streamed")
	}
	if r.MaxTokens > 0 {
		facts = append(facts, fmt.Sprintf("%d tokens at most", r.MaxTokens))
	}
	if r.Session != "" {
		facts = append(facts, "session "+plain(r.Session))
	}
	if r.Tenant != "" {
		facts = append(facts, "tenant "+plain(r.Tenant))
	}
	fmt.Fprintf(b, "request: %s\n", strings.Join(facts, ", "))
	why := plain(cmp.Or(unread[r.Unread], r.Unread))
	switch {
	case r.ReadBytes == 0 && why != "":
		fmt.Fprintf(b, "  its body is not read: %s\n", why)
	case why != "":
		fmt.Fprintf(b, "  %d of %d bytes are read: %s\n", r.ReadBytes, r.BodyBytes, why)
	case r.BodyBytes > 0:
		fmt.Fprintf(b, "  all %d bytes are read\n", r.BodyBytes)
	}
}

func printPlan(b *strings.Builder, d *state.Decision) {
	p := d.Plan
	if p == nil {
		return
	}
	if d.Prompt+d.Output > 0 {
		fmt.Fprintf(b, "  expected: %d tokens of prompt, %d of answer", d.Prompt, d.Output)
		if d.Blocks > 0 {
			fmt.Fprintf(b, "; blocks of prompt: %d", d.Blocks)
		}
		fmt.Fprintln(b)
	}
	fmt.Fprintf(b, "  cost: in %s; the request adds %d", plain(p.Unit), p.Adds)
	if p.PerRequest > 0 {
		fmt.Fprintf(b, ", each request in flight %d more", p.PerRequest)
	}
	if p.Credit > 0 {
		fmt.Fprintf(b, "; all of its prompt in a cache is worth %s", number(p.Credit))
	}
	if p.Charge > 0 {
		fmt.Fprintf(b, "; it is charged %d tokens", p.Charge)
	}
	fmt.Fprintln(b)
	if d.Class != "" {
		fmt.Fprintf(b, "  class %s, may wait for %d ms\n", plain(d.Class), p.MaxWaitMS)
	}
	if len(p.Home) > 0 {
		fmt.Fprintf(b, "  its session belongs at %s\n", plain(strings.Join(p.Home, ", then ")))
	}
	printTarget(b, p.Target)
	if p.Matches != "" {
		fmt.Fprintln(b, "  what endpoints have of its prompt is in Redis, and not known here")
	}
}

// printTarget says how soon the answer is to come, and what that changes.
func printTarget(b *strings.Builder, t *state.Target) {
	if t == nil {
		return
	}
	var wanted []string
	if t.TTFTMS > 0 {
		wanted = append(wanted, fmt.Sprintf("its first token within %d ms", t.TTFTMS))
	}
	if t.PerTokenUS > 0 {
		wanted = append(wanted, fmt.Sprintf("each one behind it within %s ms", number(float64(t.PerTokenUS)/1e3)))
	}
	effect := "which changes nothing: too little is known, all endpoints are in time, or they have no room for it"
	switch t.Effect {
	case "weighed":
		effect = "which is in the costs, and does not decide"
	case "decided":
		effect = "which decides: without it " + plain(t.Without) + " would win"
	}
	fmt.Fprintf(b, "  wanted: %s; %s\n", strings.Join(wanted, ", "), effect)
}

func printCandidates(b *strings.Builder, d *state.Decision) {
	if len(d.Candidates) == 0 {
		return
	}
	stalls := slices.ContainsFunc(d.Candidates, func(c state.Candidate) bool { return c.Stall != 0 })
	stall := "" // a column, where there are any
	if stalls {
		stall = "of it stalls\t"
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\tcost\t= base\t+ load\t%s+ over\t- credit\tcached\trequests\ttokens\tweight\t\n", stall)
	for i := range d.Candidates {
		c := &d.Candidates[i]
		mark := ""
		if c.Addr == d.Endpoint {
			mark = "> "
		}
		requests, tokens := capped(c.Requests, c.Cap), capped(c.Tokens, c.TokenCap)
		if c.Full {
			requests += " full"
		}
		if stalls {
			stall = number(c.Stall) + "\t"
		}
		fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\t%s%s\t%s\t%.0f%%\t%s\t%s\t%s\t\n", mark, plain(c.Addr),
			number(c.Cost), number(c.Base), number(c.Load), stall, number(c.Over), number(c.Credit), 100*c.Matched,
			requests, tokens, number(c.Weight))
	}
	w.Flush()
	if d.Others > 0 {
		fmt.Fprintf(b, "  and %d more\n", d.Others)
	}
}

func capped(n, limit int64) string {
	if limit == 0 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%d/%d", n, limit)
}

// number returns a number with four digits that count, and all of a whole one.
func number(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', max(4, digits(x)), 64)
}

// digits returns how many digits a number has in front of the point.
func digits(x float64) int { return 1 + int(max(0, math.Log10(math.Abs(x)))) }

// verdict says who wins, by how much, and why.
func verdict(d *state.Decision) string {
	switch {
	case d.Waits && d.ExpectedMS > 0:
		return fmt.Sprintf("it waits in the queue, probably for %d ms", d.ExpectedMS)
	case d.Waits:
		return "it waits in the queue"
	case d.Endpoint == "" && d.ExpectedMS > 0:
		return fmt.Sprintf("no endpoint: %s; one may be open in %d ms", plain(d.Reason), d.ExpectedMS)
	case d.Endpoint == "":
		return fmt.Sprintf("no endpoint: %s", plain(cmp.Or(d.Reason, "not decided")))
	}
	wins := plain(d.Endpoint) + " wins: " + why(d)
	if d.Reason != "chosen" {
		wins += "; it is counted as " + plain(d.Reason)
	}
	return wins
}

func why(d *state.Decision) string {
	switch d.Rule {
	case "home":
		if d.Plan != nil && len(d.Plan.Home) > 0 && d.Plan.Home[0] != d.Endpoint {
			return "its session's first choice is too busy or full"
		}
		return "its session belongs there"
	case "budget":
		return "it is its turn by the weights of those with a budget left"
	case "store":
		return "its store knows other loads than these"
	case "tie":
		return "drawn among those that cost the same"
	}
	chosen, next := math.NaN(), math.Inf(1)
	for _, c := range d.Candidates {
		switch {
		case c.Addr == d.Endpoint:
			chosen = c.Cost
		case !c.Full:
			next = min(next, c.Cost)
		}
	}
	if math.IsInf(next, 1) {
		return "nothing else is open"
	}
	return "it costs " + number(next-chosen) + " less than the next"
}
