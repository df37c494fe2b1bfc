package inspect

import (
	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/plugin/apicall"
)

// This file writes what package state describes as JSON, as encoding/json would, which is in no artifact.

// stateText writes a state with clusters and decisions that are written already.
func stateText(s *state.State, clusters, decisions string) string {
	var o apicall.Object
	o.Int("format", int64(s.Format))
	o.String("version", s.Version)
	o.Int("at_ms", s.AtMS)
	o.Int("vms", int64(s.VMs))
	text(&o, "region", s.Region)
	o.Add("clusters", clusters)
	whole(&o, "left_out", int64(s.LeftOut))
	if len(s.Regions) > 0 {
		o.Add("regions", apicall.List(len(s.Regions), func(i int) string { return regionText(&s.Regions[i]) }))
	}
	o.Add("decisions", decisions)
	whole(&o, "lost", s.Lost)
	return o.End()
}

// text adds a member that is left out where there is nothing.
func text(o *apicall.Object, name, value string) {
	if value != "" {
		o.String(name, value)
	}
}

// whole does the same for a whole number.
func whole(o *apicall.Object, name string, value int64) {
	if value != 0 {
		o.Int(name, value)
	}
}

// number does the same for any number.
func number(o *apicall.Object, name string, value float64) {
	if value != 0 {
		o.Float(name, value)
	}
}

// flag does the same for a mark.
func flag(o *apicall.Object, name string, value bool) {
	if value {
		o.Bool(name, value)
	}
}

func clustersText(all []state.Cluster) string {
	return apicall.List(len(all), func(i int) string { return clusterText(&all[i]) })
}

func clusterText(c *state.Cluster) string {
	var o apicall.Object
	o.String("name", c.Name)
	o.String("policy", c.Policy)
	o.String("unit", c.Unit)
	o.String("store", c.Store)
	o.Add("endpoints", apicall.List(len(c.Endpoints), func(i int) string { return endpointText(&c.Endpoints[i]) }))
	whole(&o, "left_out", int64(c.LeftOut))
	if len(c.Classes) > 0 {
		o.Add("classes", apicall.List(len(c.Classes), func(i int) string { return classText(&c.Classes[i]) }))
	}
	return o.End()
}

func endpointText(e *state.Endpoint) string {
	var o apicall.Object
	o.String("addr", e.Addr)
	text(&o, "zone", e.Zone)
	o.String("health", e.Health)
	o.Float("weight", e.Weight)
	o.Int("requests", e.Requests)
	o.Int("tokens", e.Tokens)
	whole(&o, "cap", e.Cap)
	whole(&o, "token_cap", e.TokenCap)
	whole(&o, "push_limit", e.PushLimit)
	if e.Engine != nil {
		o.Add("engine", engineText(e.Engine))
	}
	return o.End()
}

func engineText(e *state.Engine) string {
	var o apicall.Object
	o.Int("age_ms", e.AgeMS)
	o.Float("running", e.Running)
	o.Float("waiting", e.Waiting)
	o.Float("kv_cache", e.KVCache)
	return o.End()
}

func classText(c *state.Class) string {
	var o apicall.Object
	o.String("name", c.Name)
	o.Int("waiting", c.Waiting)
	return o.End()
}

func regionText(r *state.Region) string {
	var o apicall.Object
	o.String("name", r.Name)
	o.Bool("available", r.Available)
	flag(&o, "adopted", r.Adopted)
	o.Int("rtt_ms", r.RTTMS)
	o.Int("probe_age_ms", r.ProbeAgeMS)
	return o.End()
}

// decisionText writes a decision.
func decisionText(d *state.Decision) string {
	var o apicall.Object
	o.String("id", d.ID)
	o.Int("at_ms", d.AtMS)
	text(&o, "api", d.API)
	text(&o, "model", d.Model)
	o.String("cluster", d.Cluster)
	o.String("policy", d.Policy)
	text(&o, "class", d.Class)
	o.String("reason", d.Reason)
	text(&o, "rule", d.Rule)
	text(&o, "endpoint", d.Endpoint)
	text(&o, "region", d.Region)
	whole(&o, "wait_ms", d.WaitMS)
	o.Int("prompt_tokens", d.Prompt)
	o.Int("output_tokens", d.Output)
	whole(&o, "blocks", int64(d.Blocks))
	if n := len(d.Candidates); n > 0 {
		o.Add("candidates", apicall.List(n, func(i int) string { return candidateText(&d.Candidates[i]) }))
	}
	whole(&o, "others", int64(d.Others))
	flag(&o, "waits", d.Waits)
	whole(&o, "expected_ms", d.ExpectedMS)
	if d.Plan != nil {
		o.Add("plan", planText(d.Plan))
	}
	if n := len(d.Excluded); n > 0 {
		o.Add("excluded", apicall.List(n, func(i int) string { return excludedText(&d.Excluded[i]) }))
	}
	flag(&o, "ended", d.Ended)
	whole(&o, "ttft_ms", d.TTFTMS)
	whole(&o, "took_ms", d.TookMS)
	text(&o, "result", d.Result)
	if d.Used != nil {
		o.Add("usage", usageText(d.Used))
	}
	return o.End()
}

func usageText(u *state.Usage) string {
	var o apicall.Object
	o.Int("prompt", u.Prompt)
	o.Int("cached", u.Cached)
	o.Int("output", u.Output)
	return o.End()
}

func candidateText(c *state.Candidate) string {
	var o apicall.Object
	o.String("addr", c.Addr)
	o.Float("cost", c.Cost)
	o.Float("base", c.Base)
	o.Float("load", c.Load)
	number(&o, "stall", c.Stall)
	o.Float("over", c.Over)
	o.Float("credit", c.Credit)
	o.Float("matched", c.Matched)
	o.Int("requests", c.Requests)
	o.Int("tokens", c.Tokens)
	number(&o, "weight", c.Weight)
	number(&o, "capacity", c.Capacity)
	whole(&o, "cap", c.Cap)
	whole(&o, "token_cap", c.TokenCap)
	flag(&o, "full", c.Full)
	return o.End()
}
