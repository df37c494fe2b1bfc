package shipped

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
)

// TestProgramsAreServedAlike has three times as many programs as one server has places send one request after another,
// through the shipped configuration with turns by session. Answers do not stream. Half of the programs ask for five
// times as much at a time as the others; each is served as much.
func TestProgramsAreServedAlike(t *testing.T) {
	harness.LongT(t)
	const places, span = 4, 10 * time.Second
	text := find[string](t, parse(t, "envoy-config/"+overloadFile), pluginPath+".configuration.value")
	config := strings.NewReplacer(`"max_inflight": 256`, `"max_inflight": `+strconv.Itoa(places),
		`"queue": {`, `"queue": {"fair_by": "session",`).Replace(text)
	server := vllmsimtest.StartT(t, traffic.Engine(places, 1<<20))
	g := harness.StartT(t, harness.Options{Config: config, Endpoints: []harness.Endpoint{{Addr: server.Addr()}}})
	client := loadgen.NewClient(loadgen.Options{URL: g.URL() + "/v1/chat/completions"})
	defer client.Close()
	var served [3 * places]float64
	start := time.Now()
	var wg sync.WaitGroup
	for i := range served {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for n := 0; time.Since(start) < span; n++ {
				q := turnOfProgram(t, r, 200*(1+i%2*4), 40*(1+i%2*4))
				q.Header = http.Header{"X-Session-Id": {"program " + strconv.Itoa(i)}}
				s := client.Do(t.Context(), &q, start)
				if !s.OK() {
					t.Errorf("program %d: %s %s", i, s.Error, s.Detail)
					return
				}
				if n > 1 { // once the gateway knows how long answers are
					served[i] += float64(s.Usage.Prompt - s.Usage.Cached + s.Usage.Completion)
				}
			}
		}()
	}
	wg.Wait()
	least, most := slices.Min(served[:]), slices.Max(served[:])
	t.Logf("tokens served: %.0f", served)
	if most > 1.3*least {
		t.Errorf("one program was served %.0f tokens, another one %.0f", most, least)
	}
}

// turnOfProgram returns a request with a prompt of its own.
func turnOfProgram(t *testing.T, r *rand.Rand, prompt, answer int) loadgen.Request {
	t.Helper()
	body, err := loadgen.ChatBody("sim", loadgen.Text(r, prompt), answer, false)
	if err != nil {
		t.Error(err)
	}
	return loadgen.Request{Body: body, MaxTokens: answer}
}
