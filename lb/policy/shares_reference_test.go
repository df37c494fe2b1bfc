package policy

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"pgregory.net/rapid"
)

// countedRequest is a request that a VM has counted.
type countedRequest struct {
	vm, endpoint int
	slot         uint32
	published    bool
}

// sharesHistory is some VMs that count requests, with a list of all of them.
type sharesHistory struct {
	vms      []*RequestShares
	shared   []byte
	requests []countedRequest
	now      time.Duration
}

func endpointAddr(endpoint int) string { return fmt.Sprintf("10.0.0.%d:80", endpoint) }

// step draws what happens next: a VM counts requests, or publishes what it has counted, or time passes.
func (h *sharesHistory) step(rt *rapid.T) {
	vm := rapid.IntRange(0, len(h.vms)-1).Draw(rt, "VM")
	switch rapid.IntRange(0, 3).Draw(rt, "action") {
	case 0:
		h.now += time.Duration(rapid.IntRange(0, 4000).Draw(rt, "ms")) * time.Millisecond
	case 1:
		h.shared = h.vms[vm].Export(h.now, h.shared)
		h.vms[vm].ConfirmExport(h.shared)
		for i := range h.requests {
			h.requests[i].published = h.requests[i].published || h.requests[i].vm == vm
		}
		for _, other := range h.vms {
			other.Import(h.shared)
		}
	default:
		endpoint := rapid.IntRange(0, 3).Draw(rt, "endpoint")
		for range rapid.IntRange(1, 5).Draw(rt, "requests") {
			h.vms[vm].Count(h.now, endpointAddr(endpoint))
			h.requests = append(h.requests, countedRequest{vm, endpoint, shareSlotAt(h.now), false})
		}
	}
}

// known returns the requests of each endpoint in the window that a VM knows of, by the list.
func (h *sharesHistory) known(vm int) (by [4]int, total int) {
	for _, r := range h.requests {
		if (r.published || r.vm == vm) && shareSlotAt(h.now)-r.slot < shareSlots {
			by[r.endpoint]++
			total++
		}
	}
	return by, total
}

// Every VM counts the requests of the last ten slots, those of other VMs once they are published, each once.
func TestSharesAgainstAList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := &sharesHistory{now: time.Hour}
		for range rapid.IntRange(1, 3).Draw(rt, "VMs") {
			h.vms = append(h.vms, &RequestShares{limited: true})
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			h.step(rt)
			vm := rapid.IntRange(0, len(h.vms)-1).Draw(rt, "VM")
			want, all := h.known(vm)
			by, total := h.vms[vm].sums(h.now)
			if int(total) != all {
				rt.Fatalf("VM %d counts %d requests, want %d", vm, total, all)
			}
			for i, n := range want {
				if int(by[lb.EndpointHash(endpointAddr(i))]) != n {
					rt.Fatalf("VM %d counts %d requests at %d, want %d", vm, by[lb.EndpointHash(endpointAddr(i))], i, n)
				}
			}
		}
	})
}

// The candidates within the limit are those whose share stays within it with one more request; if there are none, the
// limit has no effect, so that no request is lost for it.
func TestLimitAgainstAList(t *testing.T) {
	var cs []lb.Candidate
	for i := range 4 {
		cs = append(cs, lb.Candidate{Addr: endpointAddr(i), Slope: 1, Weight: 1})
	}
	rapid.Check(t, func(rt *rapid.T) {
		h := &sharesHistory{now: time.Hour, vms: []*RequestShares{{limited: true}}}
		for range rapid.IntRange(0, 30).Draw(rt, "steps") {
			h.step(rt)
		}
		limit := float64(rapid.IntRange(0, 11).Draw(rt, "limit")) / 10
		by, total := h.known(0)
		var want []lb.Candidate
		for i, c := range cs {
			if limit <= 0 || limit >= 1 || float64(by[i]+1) <= math.Ceil(limit*float64(total+1)) {
				want = append(want, c)
			}
		}
		if len(want) == 0 {
			want = cs
		}
		got := h.vms[0].within(h.now, limit, cs)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Fatalf("limit %v of %v: %v, want %v", limit, by, got, want)
		}
	})
}

// Nothing is lost and nothing is counted twice when another VM has written in between, so that an export is repeated.
func TestExportIsRepeated(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := &sharesHistory{now: time.Hour, vms: []*RequestShares{{limited: true}, {limited: true}}}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			h.step(rt)
		}
		h.vms[0].Export(h.now, h.shared) // which could not be written
		other := h.vms[1].Export(h.now, h.shared)
		h.vms[1].ConfirmExport(other)
		all := h.vms[0].Export(h.now, other)
		h.vms[0].ConfirmExport(all)
		h.vms[1].Import(all)
		for i := range h.requests {
			h.requests[i].published = true
		}
		_, want := h.known(0)
		for i, vm := range h.vms {
			if _, total := vm.sums(h.now); int(total) != want || vm.Pending() {
				rt.Fatalf("VM %d counts %d of %d requests, pending: %v", i, total, want, vm.Pending())
			}
		}
	})
}
