package live

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/warmgate/warmgate/internal/golden"
	"github.com/warmgate/warmgate/internal/snapshot"
)

// TestRecorded makes frames of snapshots that warmgate has taken of a gateway: idle, then with five requests that their
// servers hold. The same frames come from the administration alone, as far as that knows.
func TestRecorded(t *testing.T) {
	for name, without := range map[string]bool{"frame.json": false, "frame_without_state.json": true} {
		var frames Frames
		var last Frame
		for _, file := range []string{"testdata/idle.json", "testdata/busy.json"} {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var s snapshot.Snapshot
			if err := json.Unmarshal(text, &s); err != nil {
				t.Fatal(err)
			}
			if without {
				s.Gateways[0].State = nil
			}
			last = frames.Next(&s)
		}
		got, err := json.MarshalIndent(last, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, "testdata/"+name, string(got)+"\n")
	}
}
