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

// transitions lists the phases that may follow each phase, and what leads there.
var transitions = [phases][phases]bool{
	PhaseNew: {
		PhaseReading:   true, // the body is needed for the decision
		PhaseListing:   true, // inside a cluster: the choice begins when the body has come
		PhaseReserving: true, // the headers are enough
		PhaseUncounted: true, // nothing to decide, or no endpoint: pass, forbid, passDuplicate, refuse
		PhaseDone:      true, // the client left before the headers came
	},
	PhaseReading: {
		PhaseListing:   true, // its model is known, the lists of models are not: decide
		PhaseReserving: true, // the body has come, or max_inspect_bytes of it, or body_timeout is over: decide
		PhaseUncounted: true, // the same without an endpoint: pass, refuse; or the gateway has answered: abandonBody
	},
	PhaseListing: {
		PhaseReserving: true, // they are known, or body_timeout is over: listed
		PhaseUncounted: true, // the same without an endpoint; or it is over: abandonReservation
	},
	PhaseReserving: {
		PhaseLeased:    true, // the store has granted a lease: finishReservation
		PhaseUncounted: true, // the store has failed, or it is refused: refuse; or it is over: abandonReservation
	},
	PhaseLeased: {
		PhaseUncounted: true, // the lease is released: the request is over, misrouted, or cannot be steered
	},
	PhaseUncounted: {
		PhaseUncounted: true, // counted under its reason after its lease was released
		PhaseLeased:    true, // served at home after another region has failed: followHome
		PhaseReserving: true, // back at home from adopted servers that have failed: leaveAdopted
		PhaseDone:      true, // the request is over
	},
}

func (p Phase) String() string {
	return [...]string{"new", "reading", "listing", "reserving", "leased", "uncounted", "done"}[p]
}
