// Package redisclient keeps the counts of work in flight in Redis, for all gateways that use the same server: the
// atomic choice among endpoints is a script that runs there, in one round trip.
//
// The package has no connections and no clock. Commands leave through a [Transport] that the gateway provides, answers
// come back through callbacks, and every call is told the time. [Store] implements lb.Store; lua/*.lua are its scripts,
// one for each operation, and lua/shared.lua tells how the data lie in Redis.
//
// # How counts stay exact
//
// A request in flight is a lease: an entry under its owner in Redis. Every script changes leases and totals together, so
// totals are always the sum of the leases. What can go wrong is that Redis and an owner disagree on which leases there
// are: an answer was lost, a command came through after its deadline, a release was never sent, data are gone. So once a
// second an owner's beat is answered with the ids of its leases. Those it does not know are released, those that are
// missing are asserted. Whatever went wrong is right again one beat after Redis can be reached.
//
// Redis may lose keys one by one as well, evicting them when memory is short. What the counts rest on is checked at every
// beat: if a part of it is gone, the scope's totals begin anew, and every owner asserts its leases.
//
// An owner that does not beat is dead after a while, and the next beat of any other returns its leases. Redis's own clock
// decides that, so clocks of gateways do not matter.
//
// # What endpoints have in their caches
//
// A reservation that brings the blocks of its prompt is matched, chosen, counted and noted by the same atomic script, so that of
// many equal prompts the second knows where the first one went. lua/prefix.lua tells how that lies in Redis. It is a cache: what
// is lost, late or wrong there costs a worse choice, never a count. Its keys expire, each on its own.
//
// [ACLRules] are the rights that a Redis user needs for all this.
package redisclient
