package queue

// Flows returns how many flows are remembered.
func (q *Queue) Flows() int { return len(q.line.flows) }

// MaxFlows is how many there are at most, but for one more of each class.
const MaxFlows = maxFlows
