package process

import (
	"errors"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/plugin/process/processtest"
)

func newKV() *processtest.KV { return &processtest.KV{Cells: map[string]processtest.Cell{}} }

func TestPrepareKeepsWhatIsThere(t *testing.T) {
	kv := newKV()
	if err := Prepare(kv); err != nil {
		t.Fatal(err)
	}
	store := memstore.New(kv, 1, 10*time.Second)
	plan := &lb.Plan{Scope: "llm", List: lb.NewList([]lb.Candidate{{Addr: "a", Slope: 1, Weight: 1}})}
	store.Reserve(time.Hour, 1, plan, func(_ lb.Grant, err error) {
		if err != nil {
			t.Fatal(err)
		}
	})
	leads := func(id uint64) bool {
		l := Leadership{KV: kv, ID: id, Key: KeyLeader}
		leads, _ := l.Lead(time.Hour, time.Second, false)
		return leads
	}
	if !leads(7) {
		t.Fatal("no leader")
	}
	if err := Prepare(kv); err != nil {
		t.Fatal(err)
	}
	loads, err := store.Loads("llm", []string{"a"}, nil)
	if err != nil || loads[0].Requests != 1 {
		t.Errorf("a second configuration leaves %v in flight (%v), want 1", loads, err)
	}
	if leads(8) {
		t.Error("a second configuration unseats the leader")
	}
}

func TestPrepareReportsErrors(t *testing.T) {
	trouble := errors.New("host trouble")
	broken, full := newKV(), newKV()
	broken.Broken = trouble
	if err := Prepare(broken); !errors.Is(err, trouble) {
		t.Errorf("got %v when nothing can be read", err)
	}
	full.OnSet = func(string, []byte, uint32) error { return trouble }
	if err := Prepare(full); !errors.Is(err, trouble) {
		t.Errorf("got %v when nothing can be written", err)
	}
}

func TestFormats(t *testing.T) {
	kv := newKV()
	want := func(key, want string) {
		t.Helper()
		if got := kv.Cells[key].Val; got != want {
			t.Errorf("%s\n got %q\nwant %q", key, got, want)
		}
	}
	leader := Leadership{KV: kv, ID: 0x1112131415161718, Key: KeyLeader}
	kv.Cells[KeyLeader] = processtest.Cell{Val: "\x00"}
	if leads, _ := leader.Lead(0x0102030400000000, time.Second, false); !leads {
		t.Error("no leader")
	}
	want(KeyLeader, "\x18\x17\x16\x15\x14\x13\x12\x11"+"\x00\x5e\xd0\xb2\x04\x03\x02\x01") // for 3 s
	leader.Resign()
	want(KeyLeader, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")

	draws := []uint64{0x0807060504030201, 0x100f0e0d0c0b0a09}
	OwnSecret(kv, func() (drawn uint64) {
		drawn, draws = draws[0], draws[1:]
		return drawn
	})
	want(KeySecret, "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10")
}
