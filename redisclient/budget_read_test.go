package redisclient_test

import (
	"strings"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/redisclient"
)

// budgets reads the budgets of a scope, and who took the latest request.
func (w *syncTransport) budgets(scope string) (states map[string]budget.State, last string) {
	states = map[string]budget.State{}
	value := w.value("GET", redisclient.KeysOf(scope).Budget).Str
	if value == nil {
		return states, ""
	}
	in := wire.NewReader(value)
	n, latest, refusals := int(in.Uint16()), int(in.Uint16()), int(in.Byte())
	in.Uint(6)
	all := make([]budget.State, n)
	for i := range all {
		all[i] = readState(&in)
	}
	in.Take(40 * refusals)
	for i, addr := range strings.Split(strings.TrimSuffix(string(in.Take(in.Len())), "\n"), "\n") {
		states[addr] = all[i]
		if latest == i+1 {
			last = addr
		}
	}
	if !in.OK() || len(states) != n {
		w.t.Fatalf("%d budgets of %d in %q", len(states), n, value)
	}
	return states, last
}

// tenants reads the budgets of a scope of tenants.
func (w *syncTransport) tenants(scope string) map[string]budget.State {
	states := map[string]budget.State{}
	items := w.value("HGETALL", redisclient.KeysOf(scope).Tenants).Items
	for i := 0; i+1 < len(items); i += 2 {
		if name := string(items[i].Str); name != "" {
			in := wire.NewReader(items[i+1].Str)
			states[name] = readState(&in)
		}
	}
	return states
}

// readState reads the numbers of a state.
func readState(in *wire.Reader[[]byte]) (s budget.State) {
	for _, f := range []*float64{
		&s.At, &s.MissingTokens, &s.MissingRequests, &s.Deficit, &s.Closed, &s.TokenRate, &s.RequestRate,
		&s.TakenAt, &s.Interval, &s.Told, &s.Asks,
	} {
		*f = in.Float64()
	}
	return s
}
