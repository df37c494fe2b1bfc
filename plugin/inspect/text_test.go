package inspect

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/internal/fieldtest"
	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/plugin/apicall"
)

// written returns what is written of a state.
func written(s *state.State) string {
	decisions := apicall.List(len(s.Decisions), func(i int) string { return decisionText(&s.Decisions[i]) })
	return stateText(s, clustersText(s.Clusters), decisions)
}

// What is written is read as the same by encoding/json: with every field, and with none.
func TestWhatIsWritten(t *testing.T) {
	var full, empty state.State
	fieldtest.Fill(t, reflect.ValueOf(&full).Elem())
	empty.Clusters = []state.Cluster{{Endpoints: []state.Endpoint{}}}
	for _, s := range []state.State{full, empty} {
		read := json.NewDecoder(strings.NewReader(written(&s)))
		read.DisallowUnknownFields()
		var got state.State
		if err := read.Decode(&got); err != nil {
			t.Fatalf("%s: %v", written(&s), err)
		}
		if len(got.Decisions) == 0 {
			got.Decisions = nil
		}
		if !reflect.DeepEqual(got, s) {
			t.Errorf("%s is read as %+v, want %+v", written(&s), got, s)
		}
	}
}

func TestWrittenExplanation(t *testing.T) {
	var e, got state.Explanation
	fieldtest.Fill(t, reflect.ValueOf(&e).Elem())
	read := json.NewDecoder(strings.NewReader(explanationText(&e)))
	read.DisallowUnknownFields()
	if err := read.Decode(&got); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("%s is read as %+v: %v", explanationText(&e), got, err)
	}
}

// A cost that is infinite, or no number, is still JSON.
func TestStrangeNumbers(t *testing.T) {
	c := state.Candidate{Cost: math.Inf(1), Base: math.NaN(), Load: math.Inf(-1)}
	var got state.Candidate
	if err := json.Unmarshal([]byte(candidateText(&c)), &got); err != nil || got.Cost != math.MaxFloat64 {
		t.Errorf("%s is read as %+v: %v", candidateText(&c), got, err)
	}
}
