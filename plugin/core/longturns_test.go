package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/plugin/request"
)

// With the usual limits, a conversation that grows beyond what is held of a body at once is matched as far as it is
// that of the turn before, and stays where it is.
func TestConversationsThatOutgrowWhatIsHeld(t *testing.T) {
	var tools []string
	for n := range 30 {
		tools = append(tools, fmt.Sprintf(`{"name":"t%d","description":%q,"input_schema":{"type":"object","properties":{}}}`,
			n, seededWords(uint64(100+n), 200)))
	}
	lead := `],"model":"m","system":"` + seededWords(99, 6000) + `","tools":[` + strings.Join(tools, ",") + `]}`
	for _, part := range []int{1 << 30, 16 << 10} {
		d := startFake(t, 1, 4, renderedConfig)
		var messages []string
		before, last := -1, 0
		for turn := range 12 {
			messages = append(messages, `{"role":"user","content":"`+seededWords(uint64(turn), 4900)+`"}`)
			body := `{"max_tokens":4,"messages":[` + strings.Join(messages, `,{"role":"assistant","content":"ok"},`) + lead
			d.advance(10 * time.Second)
			match, at := d.matchAt("/v1/messages", body, part)
			common := float64(last) / float64(len(body))
			t.Logf("%d bytes: %.2f are matched of %.2f", len(body), match, common)
			if turn > 0 && (match < 0.8*common || match > 1 || at != before) {
				t.Errorf("%d bytes: %.2f are matched of %.2f, at %d after %d", len(body), match, common, at, before)
			}
			before, last = at, len(body)
		}
		if last < request.HoldBytes+32<<10 || last > 2*request.HoldBytes {
			t.Fatalf("the last body has %d bytes", last)
		}
		d.drained()
	}
}
