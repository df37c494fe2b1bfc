package core

// phase is how far a request has come.
type phase uint8

const (
	phaseNew       phase = iota
	phaseReading         // held until its body, or enough of it, has come
	phaseListing         // held until it is known which models endpoints have
	phaseReserving       // held until the store has answered: at once, or after a wait in the queue of the cluster
	phaseLeased          // counted at an endpoint
	phaseUncounted       // not counted: balanced natively, or answered by the plugin, or its lease is released
	phaseDone
	phases
)

// transitions lists the phases that may follow each phase, and what leads there.
var transitions = [phases][phases]bool{
	phaseNew: {
		phaseReading:   true, // the body is needed for the decision
		phaseListing:   true, // inside a cluster: the choice begins when the body has come
		phaseReserving: true, // the headers are enough
		phaseUncounted: true, // nothing to decide, or no endpoint: pass, forbid, passDuplicate, refuse
		phaseDone:      true, // the client left before the headers came
	},
	phaseReading: {
		phaseListing:   true, // its model is known, the lists of models are not: decide
		phaseReserving: true, // the body has come, or max_inspect_bytes of it, or body_timeout is over: decide
		phaseUncounted: true, // the same without an endpoint: pass, refuse; or the gateway has answered: abandonBody
	},
	phaseListing: {
		phaseReserving: true, // they are known, or body_timeout is over: listed
		phaseUncounted: true, // the same without an endpoint; or it is over: abandonReservation
	},
	phaseReserving: {
		phaseLeased:    true, // the store has granted a lease: finishReservation
		phaseUncounted: true, // the store has failed, or it is refused: refuse; or it is over: abandonReservation
	},
	phaseLeased: {
		phaseUncounted: true, // the lease is released: the request is over, misrouted, or cannot be steered
	},
	phaseUncounted: {
		phaseUncounted: true, // counted under its reason after its lease was released
		phaseLeased:    true, // served at home after another region has failed: followHome
		phaseReserving: true, // back at home from adopted servers that have failed: leaveAdopted
		phaseDone:      true, // the request is over
	},
}

func (p phase) String() string {
	return [...]string{"new", "reading", "listing", "reserving", "leased", "uncounted", "done"}[p]
}
