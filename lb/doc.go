// Package lb is the decision core of Warmgate: it chooses which endpoint of a cluster serves a request, and counts the
// work in flight on every endpoint so that all workers and gateways choose from the same counts.
//
// # The life of a request
//
//  1. A [Policy] plans. From a [Request] and a [View] of the cluster's endpoints it makes a [Plan]: the candidates,
//     what a unit of load costs on each, and how much load the request adds. A policy never counts, locks or waits.
//  2. A [Store] reserves. In one atomic step over the counts of all workers it chooses the cheapest candidate below its
//     cap, by the rule of [Choose], and counts the request there under a lease. The result is a [Grant].
//  3. While the request is in flight its lease can be amended: a retry moves it to another endpoint, the end of the
//     prefill lowers its tokens.
//  4. At the end the lease is released, and the policy observes the [Outcome].
//
// A lease belongs to an owner, which is one VM of one gateway in one store. Owners send heartbeats; the leases of an
// owner without a heartbeat for longer than the store's TTL expire. So the counts of a crashed worker are returned
// without its help.
//
// # What is learned
//
// Each VM learns from what passes through it. One value of each type serves all policies of a cluster, so that a change
// of the configuration does not discard what was learned.
//
//   - Package health: how each endpoint ended its requests. It turns failures into lower weights and ejections, and
//     starts new endpoints slowly.
//   - Package cache: how long endpoints retain KV cache entries, how busy they are, and which prefixes are popular.
//   - Package engines: the latest engine sample of each endpoint, and the capacity and speed derived from them.
//   - Package models: which endpoints have served a model, or refused it.
//   - Package push: how many requests an engine may be given.
//   - Package policy: how many requests each endpoint got recently, for `rate_limit`, and how long clusters take.
//
// # Stores
//
//   - The embedded store counts in the gateway's shared memory, for all workers of one gateway.
//   - Package redisclient counts in Redis, for all gateways.
//   - The fallback store uses a remote store, and the embedded one while the remote store is down.
//
// # Conventions
//
// Nothing in this package reads a clock, does I/O or calls the gateway. Time is an argument: a duration since an epoch
// that all VMs of one process share. Shared memory is an argument too, as a [KV]. Unless a type states otherwise, its
// methods are for one goroutine.
//
// Lists of candidates are shared and immutable. Stores recognize a list by its digest, and do not look its endpoints up
// again: see [List].
package lb
