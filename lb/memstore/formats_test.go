package memstore_test

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/memstore/memstoretest"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/lb/storetest"
)

// The values in shared memory are byte for byte as documented: workers with another version of the plugin use them at
// the same time.
func TestFormats(t *testing.T) {
	p, addrs, now := memstoretest.NewProcess(t), []string{"10.0.0.1:8000", "10.0.0.2:8000"}, time.Hour
	s, tick := p.NewStore(), uint16(time.Hour/(4*time.Second))
	plan := storetest.WithPrompt(storetest.Even(addrs), 1, []prompt.Block{{Key: 0x0102030405060708, End: 100}})
	plan.Tokens = 1010
	s.Reserve(now, 1, plan, func(g lb.Grant, err error) {
		if err != nil || g.Index != 0 {
			t.Fatalf("%+v, %v", g, err)
		}
	})
	s.Amend(now, 1, addrs[1], 70)
	if err := s.Heartbeat(now + time.Second); err != nil {
		t.Fatal(err)
	}

	set := lb.Override{Target: 7, Set: lb.TargetLimits{1, -1, 0}, Over: lb.TargetLimits{2, 3, 4}}
	s.Overrides(now, plan.Scope, &set, func([]lb.Override, error) {})
	number, err := strconv.Atoi(slot(p, "table"))
	if err != nil {
		t.Fatal(err)
	}
	hashes := [2]uint64{lb.EndpointHash(addrs[0]), lb.EndpointHash(addrs[1])}
	const owner, index, none = 1, 0, 0xffff
	table := wire.Writer("WGT1").Uint32(1).Uint16(2).Uint16(1).Uint16(3).Uint16(tick)
	table = table.Uint64(owner).Uint32(2).Uint16(index).Uint16(0).
		Raw(strings.Repeat("\x00", 12)).               // step 8 has not been made
		Uint16(none).Uint16(0).Uint32(0).Uint32(1010). // step 1 reserves
		Uint16(0).Uint16(1).Uint32(1010).Uint32(70).   // step 2 amends
		Raw(strings.Repeat("\x00", 5*12)).             // steps 3 to 7 neither
		Uint32(0).Uint64(0).Uint32(1).Uint64(70).      // rows
		Uint64(hashes[0]).Uint64(hashes[1]).Raw(plan.Scope)
	for key, want := range map[string]wire.Writer{
		"warmgate/4/table/" + slot(p, "table"): table,
		"warmgate/4/sheet/" + slot(p, "table") + "/0": wire.Writer(nil).
			Uint64(owner).Uint32(0).Uint32(0), // from before the table had rows
		"warmgate/4/roster": wire.Writer("WGR1").Uint32(1).Duration(now + time.Second).
			Uint64(owner).Duration(now + time.Second),
		"warmgate/4/limits": wire.Writer(nil).Uint64(7).Float64(1).Float64(-1).Float64(0).
			Float64(2).Float64(3).Float64(4).Byte(0),
		"warmgate/4/taking": wire.Writer(nil).Uint16(uint16(number)).Uint16(tick).Raw(plan.Scope),
		"warmgate/4/prefix/" + slot(p, "prefix"): wire.Writer(nil).Uint64(0x0102030405060708).
			Uint32(uint32(hashes[0])).Uint16(tick).Raw(strings.Repeat("\x00", 3*6)),
	} {
		if got := p.Vals[key]; !bytes.Equal(got, want) {
			t.Errorf("%s\n got %x\nwant %x", key, got, []byte(want))
		}
	}
}

// What an owner writes while its requests wait.
func TestFormatsOfLife(t *testing.T) {
	p, now := memstoretest.NewProcess(t), time.Hour
	s := p.NewStore()
	plan := waitingPlan(1, "e1:1")
	for id := range lb.LeaseID(2) {
		s.Reserve(now, id, plan, func(lb.Grant, error) {})
	}
	s.Poll(now + time.Second)
	const owner = 1
	want := wire.Writer(nil).Uint64(owner).Duration(now + time.Second)
	if got := p.Vals["warmgate/4/life/0"]; !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, []byte(want))
	}
	s.Release(now, 1)
	if s.Poll(now + 2*time.Second); !bytes.Equal(p.Vals["warmgate/4/life/0"], want) {
		t.Error("written although nothing waits")
	}
}

// slot returns the number in the key of the only value of a kind that is longer than a byte.
func slot(p *memstoretest.Process, kind string) (number string) {
	for key, val := range p.Vals {
		if n, ok := strings.CutPrefix(key, "warmgate/4/"+kind+"/"); ok && len(val) > 1 {
			number = n
		}
	}
	return number
}

// The budgets of a table, which follow the scope's name.
func TestFormatsOfBudgets(t *testing.T) {
	p, addrs, now := memstoretest.NewProcess(t), []string{"10.0.0.1:8000", "10.0.0.2:8000"}, time.Hour
	s := p.NewStore()
	plan := storetest.Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 6000, Requests: 30}, 500)
	for id := range lb.LeaseID(3) {
		s.Reserve(now+time.Duration(id)*40*time.Millisecond, id, plan, func(lb.Grant, error) {})
	}
	closed := budget.Restriction{Tokens: -1, Requests: -1, RetryAfter: time.Second}
	s.Restrict(now+80*time.Millisecond, "llm", addrs[1], closed)
	key := "warmgate/4/table/" + slot(p, "table")
	_, got, _ := bytes.Cut(p.Vals[key], []byte("llm"))
	const start = 3_600_000
	want := wire.Writer("WGB2").Uint32(16 + 2*88).Uint16(2).Uint16(0).Uint16(0).Uint16(0)
	// Both took one in turn; the first one then another, 80 ms after its first, when 8 tokens had refilled.
	want = want.Float64(start + 80).Float64(992).Float64(1.96).Float64(0).Float64(0).
		Float64(6000).Float64(30).Float64(start + 80).Float64(80).Float64(0).Float64(0)
	want = want.Float64(start + 80).Float64(496).Float64(0.98).Float64(500).Float64(1000).
		Float64(6000).Float64(30).Float64(start + 40).Float64(0).Float64(0).Float64(0)
	if !bytes.Equal(got, want) {
		t.Errorf("\n got %x\nwant %x", got, []byte(want))
	}
}

// Tasks, and those that were refused, behind the budgets.
func TestFormatsOfTasks(t *testing.T) {
	p, addrs, now := memstoretest.NewProcess(t), []string{"10.0.0.1:8000"}, time.Hour
	s := p.NewStore()
	plan := storetest.Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 6000}, 6000)
	plan.Random, plan.Budget.AgeBonus = 0x0807060504030201, 10
	var id lb.TaskID
	s.Schedule(now, 5, 30*time.Second, plan, func(task lb.Task, _ error) { id = task.ID })
	s.Schedule(now+time.Second, 6, 30*time.Second, plan, func(lb.Task, error) {})
	_, got, _ := bytes.Cut(p.Vals["warmgate/4/table/"+slot(p, "table")], []byte("llm"))
	const start = 3_600_000
	want := wire.Writer("WGB2").Uint32(16 + 88 + 34 + 51).Uint16(1).Uint16(0).Uint16(1).Uint16(1)
	want = want.Float64(start).Float64(6000).Float64(0).Float64(0).Float64(0).
		Float64(6000).Float64(0).Float64(start).Float64(0).Float64(0).Float64(0)
	want = want.Uint64(6).Float64(start + 1000).Float64(start + 1000 + 1.1*59_000 + 1100).Float64(6000).Uint16(0)
	want = want.Raw("\x01\x02\x03\x04\x05\x06\x07\x08").Raw(string(id[8:])).Uint64(5).Uint64(lb.EndpointHash(addrs[0])).
		Uint64(start + 30_000).Uint32(30_000).Uint32(6000).Uint16(0).Byte(0)
	if !bytes.Equal(got, want) {
		t.Errorf("\n got %x\nwant %x", got, []byte(want))
	}
	s.Complete(now+2*time.Second, "llm", id, lb.TaskUse{Tokens: -1}, func(lb.TaskEnd, error) {})
	val := p.Vals["warmgate/4/table/"+slot(p, "table")]
	ended := wire.Writer(nil).Uint64(start + 32_000).Uint32(30_000).Uint32(6000).Uint16(0).Byte(uint8(lb.TaskCompleted))
	if !bytes.HasSuffix(val, ended) {
		t.Errorf("\n got %x\nwant %x at the end", val, []byte(ended))
	}
}
