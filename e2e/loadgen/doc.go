// Package loadgen sends OpenAI-style chat traffic to a gateway and measures the latency of its users.
//
// A [Workload] expands into a fixed list of requests: the same seed gives the same bodies at the same times, so that
// two balancing policies can be compared on the very same traffic. [Client] plays such a list, open loop (each request
// starts when it is due, whether or not earlier ones have finished) or closed loop (a fixed number of users). Latency
// is counted from the moment a request was due, not from the moment it was sent: a client that falls behind cannot hide
// a slow server (no coordinated omission). [Summarize] reduces the samples to exact percentiles.
//
// [Raw] is the second client: a closed loop over plain connections that sends prepared bytes and parses as little as
// possible, for benchmarks in which the client must not compete for the CPU that is being measured. [RawOpen] is the
// same as an open loop.
package loadgen
