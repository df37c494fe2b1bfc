package vm

import (
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/process/processtest"
)

func TestParseLastGood(t *testing.T) {
	want := lastGoodRecord{3, "{}", config.Forms{7: "a"}}
	val := want.append(nil)
	if got := parseLastGood(val); got.turn != 3 || got.text != "{}" || got.forms[7] != "a" {
		t.Errorf("%+v", got)
	}
	for i := range val {
		if got := parseLastGood(val[:i]); got.text != "" && got.text != "{}" {
			t.Errorf("cut after %d: %+v", i, got)
		}
	}
	if got := parseLastGood([]byte{1}); got.text != "" { // of a version before
		t.Errorf("%+v", got)
	}
}

// The values in shared memory are byte for byte as documented: VMs with another version of the plugin read them.
func TestFormats(t *testing.T) {
	const turn, turnBytes = 0x1112131415161718, "\x18\x17\x16\x15\x14\x13\x12\x11"
	got := lastGoodRecord{turn, `{"a":1}`, config.Forms{7: "f"}}.append([]byte("behind "))
	want := "behind " + turnBytes + "\x07\x00\x00\x00" + `{"a":1}` +
		"\x07\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00f"
	if string(got) != want {
		t.Errorf("last good configuration\n got %q\nwant %q", got, want)
	}

	kv := &processtest.KV{Cells: map[string]processtest.Cell{}}
	l := &lastGood{Env: &host.Env{GW: rememberingGateway{kv: kv}}}
	l.tolerate("a", []byte("{"))
	l.tolerate("a", []byte("["))
	want = "\x09\xf6\x94\xa0\x50\xa7\x9c\xea" + "\xb5\x4a\x80\x01\x5d\x06\x9e\x4b"
	if got := kv.Cells[process.KeyTolerated+"a"].Val; got != want {
		t.Errorf("what was tolerated\n got %q\nwant %q", got, want)
	}
	if !l.tolerated("a", []byte("{")) || !l.tolerated("a", []byte("[")) || l.tolerated("a", []byte("(")) {
		t.Error("not what was tolerated")
	}
	for i := range 3 * maxTolerated {
		l.tolerate("a", []byte{byte(i)})
	}
	if n := len(kv.Cells[process.KeyTolerated+"a"].Val); n != 8*maxTolerated {
		t.Errorf("%d bytes are kept of what was tolerated", n)
	}
}

// rememberingGateway is a gateway that has no more than memory.
type rememberingGateway struct {
	host.Gateway
	kv lb.KV
}

func (g rememberingGateway) KV() lb.KV { return g.kv }
