// Package redisclient counts requests in flight in Redis, for all gateways that use the same server. The choice among
// the endpoints is a script that runs in Redis: one atomic step, one round trip.
//
// The package has no connections and no clock. Commands are sent through a [Transport] that the gateway provides,
// answers arrive in callbacks, and the time is an argument of every call. [Store] implements lb.Store. The scripts are
// in the folder lua, one for each operation: lua/lua.go says how they are joined, and lua/shared.lua describes the keys
// and their formats.
//
// # How counts stay exact
//
// A request in flight is a lease: an entry in its owner's hash in Redis. Every script changes leases and totals
// together, so the totals are always the sum of the leases. What remains is that Redis and an owner may disagree on
// which leases there are: an answer was lost, a command ran after its deadline, a release was never sent, or data were
// lost. Therefore the answer to an owner's heartbeat, once a second, contains the ids of its leases. The owner releases
// those that it does not hold, and asserts those that it holds and that are missing. Any disagreement is repaired by
// the first complete heartbeat after Redis can be reached again. What happens when Redis answers late is described in
// late.go.
//
// Redis may also lose single keys, when it evicts them because memory is short. Each heartbeat checks that all keys on
// which the totals depend are there. If one is missing, a new epoch of the scope's totals begins, from zero, and every
// owner asserts its leases.
//
// An owner whose heartbeats stop for [Options.TTL] is dead, and the next heartbeat of another owner returns its leases.
// Only Redis's own clock decides this, so the clocks of the gateways do not matter.
//
// # Which endpoints have which prompts cached
//
// For a plan with prefix blocks one script matches the prompt, chooses the endpoint, counts the request and records the
// prompt, so that of many equal prompts the second already finds where the first one went. lua/prefix.lua describes the
// index. It is a cache: an entry that is lost, late or wrong causes a worse choice, never a wrong count. Its key
// expires when no gateway has recorded a prompt for as long as endpoints retain one; the others expire a minute or two
// after the last heartbeat.
//
// [ACLRules] are the rights that a Redis user needs for all this.
package redisclient
