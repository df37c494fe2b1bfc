package redisclient_test

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/redisclient"
)

// leases returns the leases of all owners in Redis that count in the present epoch of the scope's table.
func (w *syncTransport) leases(scope string) (byOwner map[string]map[lb.LeaseID]heldLease) {
	w.t.Helper()
	k := redisclient.KeysOf(scope)
	table := w.value("GET", k.Table).Str
	addrs := map[int]string{}
	rows := w.rows(scope)
	for addr, row := range rows {
		addrs[row] = addr
	}
	byOwner = map[string]map[lb.LeaseID]heldLease{}
	for _, owner := range w.value("ZRANGE", k.Owners, "0", "-1").Items {
		own := w.value("HGETALL", k.Leases+string(owner.Str)).Items
		mark, held := "", map[lb.LeaseID]heldLease{}
		for i := 0; i < len(own); i += 2 {
			if string(own[i].Str) == "b" {
				mark = string(own[i+1].Str)
			}
			if id, row, tokens, ok := redisclient.ParseLease(string(own[i].Str), own[i+1].Str); ok {
				held[id] = heldLease{scope, addrs[row], tokens}
			}
		}
		if len(table) >= 8 && mark == string(table[:8]) {
			byOwner[string(owner.Str)] = held
		}
	}
	return byOwner
}

// sumLoads returns the load of each endpoint that the leases add up to.
func sumLoads(shares ...map[lb.LeaseID]heldLease) map[string]lb.Load {
	loads := map[string]lb.Load{}
	for _, m := range shares {
		for _, l := range m {
			load := loads[l.addr]
			loads[l.addr] = lb.Load{Requests: load.Requests + 1, Tokens: load.Tokens + l.tokens}
		}
	}
	return loads
}

// nonZero returns the loads without the endpoints that have none.
func nonZero(loads map[string]lb.Load) map[string]lb.Load {
	out := maps.Clone(loads)
	maps.DeleteFunc(out, func(_ string, l lb.Load) bool { return l == lb.Load{} })
	return out
}

// auditSums checks that the totals are the sum of the leases in Redis.
func (h *history) auditSums() {
	for _, scope := range []string{"llm", "other"} {
		var all []map[lb.LeaseID]heldLease
		for _, held := range h.root.leases(scope) {
			all = append(all, held)
		}
		if got, want := nonZero(h.root.loads(scope)), sumLoads(all...); !maps.Equal(got, want) {
			h.rt.Fatalf("scope %s: the totals are %v, the sum of the leases %v", scope, got, want)
		}
	}
}

// auditWaiting checks that the owners' requests that wait, and no others, wait in Redis: by the entry of their owner
// and by a ticket. Tickets without such an entry are void.
func (h *history) auditWaiting() {
	for _, scope := range []string{"llm", "other"} {
		k := redisclient.KeysOf(scope)
		tickets := h.root.value("HGETALL", k.Tickets).Items
		epoch := string(h.root.value("GETRANGE", k.Table, "0", "7").Str)
		for _, o := range h.owners {
			var got []lb.LeaseID
			own, mark := h.root.value("HGETALL", k.Leases+o.name).Items, ""
			for i := 0; i < len(own); i += 2 {
				id, entry := string(own[i].Str), string(own[i+1].Str)
				switch {
				case id == "b":
					mark = entry
				case len(id) == 8 && strings.HasPrefix(entry, "w") && hasTicket(tickets, entry[1:], id, o.name):
					got = append(got, lb.LeaseID(binary.LittleEndian.Uint64([]byte(id))))
				}
			}
			if mark != epoch {
				got = nil
			}
			slices.Sort(got)
			want := o.WaitingIn(scope)
			slices.Sort(want)
			h.count["wait after faults"] += len(want)
			if !slices.Equal(got, want) {
				h.rt.Fatalf("scope %s: of owner %s wait %v, in Redis %v", scope, o.name, want, got)
			}
		}
	}
}

// hasTicket reports whether there is a ticket in the flow.
func hasTicket(tickets []redisclient.Value, flow, id, owner string) bool {
	for i := 0; i < len(tickets); i += 2 {
		if string(tickets[i].Str) == flow {
			for t := range slices.Chunk(tickets[i+1].Str, redisclient.TicketSize) {
				if string(t[:8]) == id && strings.TrimSpace(string(t[8:24])) == owner {
					return true
				}
			}
		}
	}
	return false
}

// auditHeld checks that the totals, and the sum of the leases in Redis, are what the owners hold.
func (h *history) auditHeld() {
	h.auditSums()
	for _, scope := range []string{"llm", "other"} {
		var all []map[lb.LeaseID]heldLease
		for _, o := range h.owners {
			held := maps.Clone(o.held)
			maps.DeleteFunc(held, func(_ lb.LeaseID, l heldLease) bool { return l.scope != scope })
			all = append(all, held)
		}
		if got, want := nonZero(h.root.loads(scope)), sumLoads(all...); !maps.Equal(got, want) {
			h.rt.Fatalf("scope %s: the totals are %v, the owners hold %v", scope, got, want)
		}
	}
}
