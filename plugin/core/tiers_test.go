package core

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

func TestOwnZoneIsReadOnce(t *testing.T) {
	_, vms := adminVMs(t, 2)
	read := 0
	vms[1].where = func() lb.Zone { read++; return lb.Zone{Region: "r", Name: "a"} }
	learn(t, vms[0], time.Hour, clustersPage("healthy"))
	vms[1].refresh(time.Hour)
	learn(t, vms[0], time.Hour+pollEvery, clustersPage("healthy", "healthy"))
	vms[1].refresh(time.Hour + pollEvery)
	if v := vms[1].views["llm"]; read != 1 || len(v.Endpoints) != 2 || v.Zone != (lb.Zone{Region: "r", Name: "a"}) {
		t.Errorf("read %d times, %+v", read, v)
	}
}

// Code that writes another form of the digest has a leader and a digest of its own: while it is replaced, both forms
// are there, and no worker mistakes one for the other.
func TestOtherFormsOfTheDigest(t *testing.T) {
	kv, vms := adminVMs(t, 1)
	leader := binary.LittleEndian.AppendUint64(nil, 99)
	leader = binary.LittleEndian.AppendUint64(leader, uint64(2*time.Hour))
	for key, value := range map[string][]byte{
		"warmgate/1/leader": leader, "warmgate/1/digest": {1, 1, 3, 'l', 'l', 'm', 0}, "warmgate/1/fresh": leader[8:],
	} {
		if err := kv.Set(key, value, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := states(vms[0], time.Hour); got != "none" {
		t.Errorf("the other form was read: %s", got)
	}
	learn(t, vms[0], time.Hour, clustersPage("healthy"))
	if got := states(vms[0], time.Hour); got != "healthy" {
		t.Errorf("got %s", got)
	}
	if old, _, err := kv.Get("warmgate/1/digest"); err != nil || len(old) != 7 {
		t.Errorf("the other form was written: %q, %v", old, err)
	}
}
