package inspect

import (
	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/plugin/apicall"
)

func explanationText(e *state.Explanation) string {
	var o apicall.Object
	o.Int("format", int64(e.Format))
	o.String("version", e.Version)
	o.Int("at_ms", e.AtMS)
	o.Add("request", requestText(&e.Request))
	o.Add("decisions", apicall.List(len(e.Decisions), func(i int) string { return decisionText(&e.Decisions[i]) }))
	return o.End()
}

func requestText(r *state.Request) string {
	var o apicall.Object
	o.String("call", r.Call)
	text(&o, "api", r.API)
	text(&o, "model", r.Model)
	text(&o, "session", r.Session)
	text(&o, "tenant", r.Tenant)
	flag(&o, "stream", r.Stream)
	o.Int("body_bytes", r.BodyBytes)
	o.Int("read_bytes", r.ReadBytes)
	text(&o, "unread", r.Unread)
	whole(&o, "text_bytes", r.TextBytes)
	whole(&o, "max_tokens", r.MaxTokens)
	return o.End()
}

func planText(p *state.Plan) string {
	var o apicall.Object
	o.String("unit", p.Unit)
	o.Int("adds", p.Adds)
	whole(&o, "per_request", p.PerRequest)
	number(&o, "credit", p.Credit)
	number(&o, "credit_growth", p.CreditGrowth)
	if n := len(p.Home); n > 0 {
		o.Add("home", apicall.List(n, func(i int) string { return apicall.Quote(p.Home[i]) }))
	}
	number(&o, "load_factor", p.LoadFactor)
	whole(&o, "max_wait_ms", p.MaxWaitMS)
	whole(&o, "charge", p.Charge)
	text(&o, "matches", p.Matches)
	if p.Target != nil {
		o.Add("target", targetText(p.Target))
	}
	return o.End()
}

func targetText(t *state.Target) string {
	var o apicall.Object
	whole(&o, "ttft_ms", t.TTFTMS)
	whole(&o, "per_token_us", t.PerTokenUS)
	o.String("effect", t.Effect)
	text(&o, "without", t.Without)
	return o.End()
}

func excludedText(e *state.Excluded) string {
	var o apicall.Object
	o.String("addr", e.Addr)
	o.String("why", e.Why)
	return o.End()
}
