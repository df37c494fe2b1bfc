package redisclient

import (
	"strings"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// KeyPrefix is the beginning of every key. The number is the version of the data formats: versions of the plugin with
// other formats have other keys, so they count separately and cannot misread each other's data.
const KeyPrefix = "warmgate:4:"

// Keys are the names of a scope's keys. They share a hash tag, so that a Redis Cluster keeps them on one node. The
// formats are described in lua/shared.lua, that of Pages in lua/prefix.lua, those of Queue and Tickets in
// lua/queue.lua, that of Budget in lua/budget_key.lua, that of Tenants in lua/tenant.lua, those of Tasks and Expiry in
// lua/tasks.lua, that of Overrides in lua/overrides.lua.
type Keys struct {
	Table  string // the totals: requests and tokens in flight at each endpoint
	Rows   string // the row of each endpoint in the table
	Listed string // when each row was last on a list of candidates
	Owners string // the owners, with the times of their last heartbeats
	Turn   string // the owner that currently returns the leases of dead owners
	Queue  string // the requests that wait: all but their tickets
	// Tickets are the requests that wait, in their order.
	Tickets string
	Lives   string // until when owners with waiting requests may be silent
	Budget  string // what is left of the budgets of the endpoints
	Tenants string // what is left of the budgets of tenants
	Tasks   string // the tasks, and when each ends
	Expiry  string
	// Overrides are limits of targets that were set at run time.
	Overrides string
	// The following are prefixes.
	Leases         string // followed by an owner's name: the owner's leases
	Candidates     string // followed by a digest: a list of candidates
	CandidatesPart string // followed by a digest, ":" and a number: a part of a long list
	Pages          string // followed by the number of pages in base 36: the index pages
}

// KeysOf returns the keys of a scope.
func KeysOf(scope string) Keys {
	// A brace in the name would end the hash tag early.
	p := KeyPrefix + "{" + strings.ReplaceAll(strings.ReplaceAll(scope, "{", "("), "}", ")") + "}:"
	return Keys{
		Table: p + "table", Rows: p + "rows", Listed: p + "listed", Owners: p + "owners", Turn: p + "turn",
		Queue: p + "queue", Tickets: p + "tickets", Lives: p + "lives",
		Budget: p + "budget2", Tenants: p + "tenants2",
		Tasks: p + "tasks", Expiry: p + "expiry", Overrides: p + "limits",
		Leases: p + "own:", Candidates: p + "view:", CandidatesPart: p + "part:", Pages: p + "pages:",
	}
}

// The format of a table, as described in lua/shared.lua.
const (
	tableHead    = 16        // bytes before the first row
	tableRow     = 9         // bytes of a row
	maxRowTokens = 1<<48 - 1 // of a row
)

// ParseLoads reads the totals from a scope's table. rows is the row of each address, from the hash beside the table.
// Addresses whose row is not in the table are left out.
func ParseLoads(table []byte, rows map[string]int) map[string]lb.Load {
	out := make(map[string]lb.Load, len(rows))
	for addr, row := range rows {
		at := tableHead + row*tableRow
		if row < 0 || at+tableRow > len(table) {
			continue
		}
		out[addr] = parseLoad(table[at:])
	}
	return out
}

// parseLoad reads one row of a table, which must be complete.
func parseLoad(row []byte) lb.Load {
	r := wire.NewReader(row)
	return lb.Load{Requests: int64(r.Uint(3)), Tokens: int64(r.Uint(6))}
}

// ParseLease reads one entry of an owner's hash. ok is false for entries that are no lease: marks and tombstones.
func ParseLease(field string, value []byte) (id lb.LeaseID, row int, tokens int64, ok bool) {
	const minLen, maxLen = 7, 8 // the optional last byte is how many leading blocks of the prompt were cached
	if len(field) != 8 || len(value) < minLen || len(value) > maxLen {
		return 0, 0, 0, false
	}
	return lb.LeaseID(wire.Uint64([]byte(field), 0)), int(wire.Uint16(value, 0)), int64(wire.Uint32(value, 2)), true
}
