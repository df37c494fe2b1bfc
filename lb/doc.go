// Package lb is the decision core of Warmgate: which endpoint of a cluster serves a request, and how the work in
// flight on every endpoint is counted so that the answer stays right across workers.
//
// The model is one sentence long: a policy plans, a store reserves.
//
//   - A [Policy] is a pure function from a [Request] and a [View] of the cluster's endpoints to a [Plan]: the
//     candidates, what a unit of load costs on each, and what this request adds. It never counts, locks or waits.
//   - A [Store] takes the cheapest candidate with room, counts the request there under a lease, and returns the
//     endpoint as a [Grant]: one atomic step over the work of all workers. Leases belong to an owner (one VM of one
//     gateway), are released by id, and come back by themselves when their owner dies.
//   - [Choose] is the reference of that step. Every store calls it or is held equal to it by test.
//   - A [Health] remembers how each endpoint treated the requests it was given, and turns failures, ejections and slow
//     start into the candidates' weights.
//
// Nothing in this package reads a clock, does I/O or calls the gateway: time comes in as an argument, a duration since
// an epoch that all VMs of one process share, and shared memory comes in as a [KV].
package lb
