// Package memstore is the embedded store: it counts the work in flight over all workers of one gateway in the gateway's
// shared memory, and records there which endpoints have which prefix blocks in their KV cache.
//
// An owner is one VM, and a scope is the name under which load is counted together. These values are in shared memory:
//
//	key                          value
//	warmgate/4/table/SLOT        table: the load of each endpoint of one scope, and the latest steps of each owner;
//	                             its budgets, its tasks, and the requests that wait
//	warmgate/4/sheet/SLOT/INDEX  checkpoint: what one owner holds in the table of the slot
//	warmgate/4/life/INDEX        when one owner, of whom requests wait, was last seen: see life.go
//	warmgate/4/roster            owner directory: the live owners, their latest heartbeats, and their indexes
//	warmgate/4/taking            slot assignment: the scope that got a slot last
//	warmgate/4/prefix/PAGE       page of the prefix index
//
// Their formats are at the top of table.go, checkpoint.go, directory.go and slots.go, and in package prefixindex. All
// numbers are little-endian.
//
// Choosing an endpoint and counting a request there are one compare-and-swap of the scope's table. The totals in a
// table are the sum of what its members hold, where a member is an owner that has or had leases there. The table logs
// the last steps of each member, as a write-ahead log does, and each member writes a checkpoint of all that it holds
// once in a while: checkpoint and log together are what it holds. So the totals can be recomputed at any time, also
// without an owner that has died in the middle of its writes: see Store.Heartbeat.
//
// A Store has these parts. None knows the Store, and each only those above it:
//
//	tables    the tables in their slots, as they are in shared memory
//	presence  what shows the other owners that this one is alive
//	requests  the requests of this owner that hold a lease or wait
//	ledger    what this owner holds in the tables, and the compare-and-swap of one, on a draft of it
//	placer    where a request or a task goes, in a draft
//	poll      what becomes of the requests that wait, in a draft
//	sweeper   returns what dead owners held
package memstore
