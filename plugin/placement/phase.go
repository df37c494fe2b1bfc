package placement

// Phase is how far a request has come.
type Phase uint8

// The phases.
const (
	PhaseNew       Phase = iota
	PhaseReading         // held until its body, or enough of it, has come
	PhaseListing         // held until it is known which models endpoints have
	PhaseReserving       // held until the store has answered: at once, or after a wait in the queue of the cluster
	PhaseLeased          // counted at an endpoint
	PhaseUncounted       // not counted: balanced natively, or answered by the plugin, or its lease is released
	PhaseDone
	phases
)

// transitions lists the phases that may follow each phase, and what leads there: functions of this package, or
// of package core.
var transitions = [phases][phases]bool{
	PhaseNew: {
		PhaseReading:   true, // the body is needed for the decision
		PhaseListing:   true, // inside a cluster: the choice begins when the body has come
		PhaseReserving: true, // the headers are enough
		PhaseUncounted: true, // nothing to decide, no endpoint, or refused: core's pass, forbid, passDuplicate
		PhaseDone:      true, // the client left before the headers came, or the plugin answers it: core's OnDone
	},
	PhaseReading: {
		PhaseListing:   true, // its model is known, the lists of models are not: Begin
		PhaseReserving: true, // the body has come, or max_inspect_bytes of it, or body_timeout is over: reserve
		PhaseUncounted: true, // the same without an endpoint, or the gateway has answered: core's pass, abandonBody
	},
	PhaseListing: {
		PhaseReserving: true, // they are known, or body_timeout is over: listed
		PhaseUncounted: true, // the same without an endpoint; or it is over: AbandonReservation
	},
	PhaseReserving: {
		PhaseLeased:    true, // the store has granted a lease: finishReservation
		PhaseUncounted: true, // the store has failed, or it is refused: GiveUp; or it is over: AbandonReservation
	},
	PhaseLeased: {
		PhaseUncounted: true, // the request is over, misrouted, or cannot be steered: Release
	},
	PhaseUncounted: {
		PhaseUncounted: true, // counted under its reason after its lease was released
		PhaseLeased:    true, // served at home after another region has failed: CountIfListed
		PhaseReserving: true, // back at home from adopted servers that have failed: TakeUp
		PhaseDone:      true, // the request is over
	},
}

func (p Phase) String() string {
	return [...]string{"new", "reading", "listing", "reserving", "leased", "uncounted", "done"}[p]
}
