package core

// This file is what a request's span gets to know of it (lb_config.telemetry.spans). Gateways finish a span before the
// plugin hears of the end of its request: so what is known is shown when the request is placed, when a stream shows its
// first output, and when the answer has passed. A span of a request that breaks off has what was known until then.

// tell shows what has come of the answer, once each time that there is more. ended: all of it has passed.
func (pl *choice) tell(ended bool) {
	if pl.told == toldAll || pl.inside != nil || !tells(pl) {
		return
	}
	switch {
	case ended:
		pl.told = toldAll
	case pl.told == toldNothing && pl.Response.FirstAt > 0:
		pl.told = toldBegin
	default:
		return
	}
	pl.plugin.VM.Callback(pl.Context, "fields of a span", pl.showFields, nil)
}
