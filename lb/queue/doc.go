// Package queue is the order in which waiting requests are granted endpoints: the queue of one scope, as one packed
// value that a store changes in an atomic step of its own.
//
// A waiting request is a ticket. Whoever frees capacity, adds a ticket or brings other caps calls [Queue.Dispatch],
// which grants the open endpoints to those whose turn it is: in the names of their owners, who claim the grants with
// [Queue.Remove]. So no request that comes later overtakes one that waits, and no capacity is given out twice.
//
// # Whose turn it is
//
// At an endpoint that is open, among the tickets that may use it:
//
//  1. Those of one class: with strict order the highest that waits, else the one that was served least in proportion
//     to its weight. Of what is granted so, a part is owed to classes whose tickets have waited for their aging: see
//     aging.go.
//  2. Within the class those of the tenant that was served least, and of that tenant's programs, if it has some, of
//     the one that was.
//  3. The one that came first, unless a later one is worth more there: see worth in turn.go. It passes at most as many
//     others as its Skip, and nobody is passed by more than maxPassed times that.
//
// Classes and tenants are served by start-time fair queueing (Goyal, Vin, Cheng: "Start-time Fair Queuing", SIGCOMM
// 1996): each has a virtual time that advances by what it was served, in tokens, divided by its weight, and one that
// begins to wait starts at the time of the one that was served last. So nobody saves up service by not asking for it.
// Programs are flows beside each other, and each advances by as many times its tokens as its tenant has programs that
// take turns: so the tenant has no more of the service than one with a single program.
package queue
