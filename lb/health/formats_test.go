package health_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/health/healthtest"
)

// What VMs exchange is byte for byte as documented: those with another version of the plugin read it.
func TestFormatsOfEjections(t *testing.T) {
	v := healthtest.View(1)
	h := healthtest.New(v)
	now := time.Duration(0x0102030400000000)
	healthtest.Fail(h, now, v.Endpoints[0].Addr, 5)
	const ejection = "\xba\xba\x59\x89\x11\xe0\x2e\xab" + "\x00\x00\x00\x00\x04\x03\x02\x01" +
		"\x00\xe4\x0b\x54\x06\x03\x02\x01" + "\x01\x00\x00\x00" + "\x05\x00\x00\x00" // for 10 s
	exported, _ := h.Export(now, nil)
	if string(exported) != ejection {
		t.Errorf("ejections\n got %q\nwant %q", exported, ejection)
	}
}
