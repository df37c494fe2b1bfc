package core

// placement is one choice from plan to outcome: plan, reservation, lease, outcome.
type placement struct {
	basis
	wait   waiting  // in the queue of the cluster
	charge charging // what it is charged
	judge  judging  // what its end means for who has served it
}
