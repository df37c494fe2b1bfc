package models_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/models"
	"github.com/warmgate/warmgate/lb/storetest"
)

// What VMs exchange is byte for byte as documented: those with another version of the plugin read it.
func TestFormatsOfFacts(t *testing.T) {
	now, facts := time.Duration(0x0102030400000000), models.NewFacts()
	facts.Absent(now, 0x1817161514131211, storetest.Addrs(1)[0])
	const fact = "\x11\x12\x13\x14\x15\x16\x17\x18" + "\xba\xba\x59\x89\x11\xe0\x2e\xab" +
		"\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x04\x03\x02\x01" + "\x00\xf2\x05\x2a\x05\x03\x02\x01" + // for 5 s
		"\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00"
	if got, _ := facts.Export(now, nil); string(got) != fact {
		t.Errorf("facts about models\n got %q\nwant %q", got, fact)
	}
}
