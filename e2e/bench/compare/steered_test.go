package compare

import (
	"net/http"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

func TestSteered(t *testing.T) {
	chosen := loadgen.Sample{Status: 200, Header: http.Header{"X-Warmgate-Host": {"127.0.0.1:1"}}}
	fallen := loadgen.Sample{Status: 200, Header: http.Header{"X-Warmgate-Reason": {"config_invalid"}}}
	failed := loadgen.Sample{Error: loadgen.ErrTimeout}
	some := []loadgen.Sample{failed, failed, failed, fallen}
	for range 9 {
		some = append(some, chosen)
	}
	if err := Warmgate.Steered(some); err != nil {
		t.Error(err)
	}
	err := Warmgate.Steered(append(some, fallen))
	if err == nil || !strings.Contains(err.Error(), "2 of 11 answers, reasons map[config_invalid:2]") {
		t.Errorf("two of eleven: %v", err)
	}
	if err := LeastRequest.Steered([]loadgen.Sample{fallen}); err != nil {
		t.Errorf("a native policy: %v", err)
	}
	if err := Warmgate.Steered(nil); err != nil {
		t.Errorf("without any answer: %v", err)
	}
}
