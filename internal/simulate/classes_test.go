package simulate

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/plugin/config"
)

// TestClasses holds that classes have their shares of the users, that all requests are some class's, and that a heavy
// class waits less where requests wait.
func TestClasses(t *testing.T) {
	s := small()
	s.Think, s.Classes = 50*time.Millisecond, []Share{{"interactive", 3}, {"batch", 1}}
	c, err := ParseContender("it", []byte(`{"lb_policy":"global_least_request","lb_config":{"max_inflight":4,"queue":
		{"max_wait":"60s","classes":{"interactive":20,"batch":1},"class_header":"x-class"}}}`), config.Higress)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(s.New(1), Alike(2, Engine{Config: enginesim.Config{NumBlocks: 4096}}), c, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Classes) != 2 || r.Classes[0].Name != "batch" || r.Classes[1].Name != "interactive" {
		t.Fatalf("%+v", r.Classes)
	}
	batch, interactive := r.Classes[0], r.Classes[1]
	if batch.Served+interactive.Served != r.Served || batch.Refused+interactive.Refused+r.Served != r.Requests {
		t.Errorf("%+v of %d served and %d sent", r.Classes, r.Served, r.Requests)
	}
	if interactive.TTFT.P50 >= batch.TTFT.P50/2 {
		t.Errorf("interactive requests wait %.2f s, batches %.2f", interactive.TTFT.P50, batch.TTFT.P50)
	}
	counts := map[string]int{}
	for i := range 1000 {
		counts[s.classOf(i)]++
	}
	if counts["interactive"] < 745 || counts["interactive"] > 755 || counts["batch"] != 1000-counts["interactive"] {
		t.Errorf("%v, want three quarters of 1000", counts)
	}
	if s.Classes = []Share{{"", 1}}; s.Validate() == nil {
		t.Error("a class without a name is valid")
	}
}
