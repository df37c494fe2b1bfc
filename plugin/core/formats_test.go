package core

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/process"
)

// The values of the following tests, with their bytes.
const (
	formatTime      = time.Duration(0x0102030400000000)
	formatTimeBytes = "\x00\x00\x00\x00\x04\x03\x02\x01"
	formatID        = 0x1112131415161718
	formatIDBytes   = "\x18\x17\x16\x15\x14\x13\x12\x11"
)

// The values in shared memory are byte for byte as documented: VMs with another version of the plugin read them.
func TestFormats(t *testing.T) {
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"last good configuration": {
			lastGoodRecord{formatID, `{"a":1}`, config.Forms{7: "f"}}.append([]byte("behind ")),
			"behind " + formatIDBytes + "\x07\x00\x00\x00" + `{"a":1}` +
				"\x07\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00f",
		},
	} {
		if string(c.got) != c.want {
			t.Errorf("%s\n got %q\nwant %q", name, c.got, c.want)
		}
	}
}

func TestFormatsInSharedMemory(t *testing.T) {
	p := newFakeProcess(t, 0)
	kv := p.kv
	want := func(key, want string) {
		t.Helper()
		if got := kv.Cells[key].Val; got != want {
			t.Errorf("%s\n got %q\nwant %q", key, got, want)
		}
	}

	l := p.newVM().lastGood
	l.tolerate("a", []byte("{"))
	l.tolerate("a", []byte("["))
	want(process.KeyTolerated+"a", "\x09\xf6\x94\xa0\x50\xa7\x9c\xea"+"\xb5\x4a\x80\x01\x5d\x06\x9e\x4b")
	if !l.tolerated("a", []byte("{")) || !l.tolerated("a", []byte("[")) || l.tolerated("a", []byte("(")) {
		t.Error("not what was tolerated")
	}
}
