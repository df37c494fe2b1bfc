package lb_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// What VMs exchange is byte for byte as documented: those with another version of the plugin read it.
func TestFormats(t *testing.T) {
	v := viewOf(1)
	h := newHealth(v)
	now := time.Duration(0x0102030400000000)
	fail(h, now, v.Endpoints[0].Addr, 5)
	const ejection = "\xba\xba\x59\x89\x11\xe0\x2e\xab" + "\x00\x00\x00\x00\x04\x03\x02\x01" +
		"\x00\xe4\x0b\x54\x06\x03\x02\x01" + "\x01\x00\x00\x00" + "\x05\x00\x00\x00" // for 10 s
	exported, _ := h.Export(now, nil)
	if string(exported) != ejection {
		t.Errorf("ejections\n got %q\nwant %q", exported, ejection)
	}

	s := lb.NewRequestShares()
	const share = "\x04\x03\x02\x01" + "\x18\x17\x16\x15\x14\x13\x12\x11" + "\x24\x23\x22\x21"
	s.Import([]byte(share))
	if got := s.Export(0x01020304*time.Second, []byte(share)); string(got) != share {
		t.Errorf("counts for rate_limit\n got %q\nwant %q", got, share)
	}

	facts := lb.NewModelFacts()
	facts.Absent(now, 0x1817161514131211, v.Endpoints[0].Addr)
	const fact = "\x11\x12\x13\x14\x15\x16\x17\x18" + "\xba\xba\x59\x89\x11\xe0\x2e\xab" +
		"\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x04\x03\x02\x01" + "\x00\xf2\x05\x2a\x05\x03\x02\x01" + // for 5 s
		"\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00"
	if got, _ := facts.Export(now, nil); string(got) != fact {
		t.Errorf("facts about models\n got %q\nwant %q", got, fact)
	}
}
