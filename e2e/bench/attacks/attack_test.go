package attacks

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestEveryAttackIsPlayed(t *testing.T) {
	names := map[string]bool{}
	for i := range attacks {
		a := &attacks[i]
		if names[a.String()] || a.about == "" {
			t.Errorf("attack %q: %q", a, a.about)
		}
		names[a.String()] = true
		played := 0
		for _, together := range batches {
			if slices.Contains(together, a.scenario) {
				played++
			}
		}
		if played != 1 || scenarioOf(a.scenario).name != a.scenario {
			t.Errorf("%s: scenario %s is played %d times a round", a, a.scenario, played)
		}
		if (a.share > 0) != (a.request != nil) || a.judged == (judged{}) || a.moved && a.share == 0 {
			t.Errorf("%s: a share of %v, judged by %+v", a, a.share, a.judged)
		}
	}
	for _, sc := range scenarios {
		if !json.Valid([]byte(sc.plugin)) {
			t.Errorf("scenario %s: %s", sc.name, sc.plugin)
		}
	}
	for _, target := range targets {
		if !slices.ContainsFunc(attacks, func(a attack) bool { return target.part(&a) }) {
			t.Errorf("no attack is judged by %s", target.name)
		}
	}
}

func TestShotsHaveTheirShare(t *testing.T) {
	const n, span = 590, 17 * time.Second
	for i := range attacks {
		a := &attacks[i]
		shots := a.shots(5, n, span)
		if got := float64(len(shots)) / float64(len(shots)+n); !near(got, a.share, 0.002) {
			t.Errorf("%s: %d requests of %d, want a share of %v", a, len(shots), len(shots)+n, a.share)
		}
		again := a.shots(5, n, span)
		for k := range shots {
			if shots[k].due >= span || k > 0 && shots[k].due < shots[k-1].due {
				t.Fatalf("%s: request %d is due at %v", a, k, shots[k].due)
			}
			if shots[k].due != again[k].due || !bytes.Equal(shots[k].text, again[k].text) {
				t.Fatalf("%s: the seed does not decide request %d", a, k)
			}
			r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(shots[k].text)))
			if err != nil || r.Header.Get(attackerHeader) != "1" || r.URL.Path != scenarioOf(a.scenario).path {
				t.Fatalf("%s: request %d: %+v, %v", a, k, r, err)
			}
			if body, err := io.ReadAll(r.Body); (err == nil) != (shots[k].hold == 0) {
				t.Errorf("%s: request %d has %d bytes of a body of %d, and is held for %v", a, k, len(body),
					r.ContentLength, shots[k].hold)
			}
		}
	}
}

// TestRespelledNames has half of the names mean the honest model, each spelled in a way that differs from the last.
func TestRespelledNames(t *testing.T) {
	spellings := map[string]bool{}
	for k := range 2 * freshNames {
		text := spelled(k)
		var name string
		if err := json.Unmarshal([]byte(`"`+text+`"`), &name); err != nil {
			t.Fatal(err)
		}
		if k%2 == 0 && name != modelName || k%2 == 1 && !strings.HasPrefix(name, "model-") {
			t.Fatalf("%d: %q means %q", k, text, name)
		}
		spellings[text] = true
	}
	if want := freshNames + 1<<len(modelName); len(spellings) != want {
		t.Errorf("%d spellings, want %d", len(spellings), want)
	}
}

func TestSelected(t *testing.T) {
	all, err := selected("")
	if err != nil || len(all) != len(attacks) {
		t.Errorf("%d attacks, %v", len(all), err)
	}
	some, err := selected("3,1b")
	var names []string
	for i := range some {
		names = append(names, some[i].String())
	}
	if err != nil || strings.Join(names, "; ") != "1b tokens; 1b prefix; 3 fast 404; 3 unknown model" {
		t.Errorf("selected %q, %v", names, err)
	}
	for _, bad := range []string{"7", "1", "1a,", "1a,x"} {
		if got, err := selected(bad); err == nil {
			t.Errorf("%q selects %d attacks", bad, len(got))
		}
	}
}

// TestFire has a server that answers one request, resets the next and leaves the last one waiting.
func TestFire(t *testing.T) {
	var mu sync.Mutex
	from := map[string]int{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		mu.Lock()
		from[host]++
		mu.Unlock()
		switch r.URL.Path {
		case "/teapot":
			w.WriteHeader(http.StatusTeapot)
		case "/reset":
			panic(http.ErrAbortHandler)
		default:
			<-r.Context().Done()
		}
	}))
	defer srv.Close()
	shots := []shot{
		{text: post("/teapot", "{}")},
		{text: post("/reset", "{}"), due: 10 * time.Millisecond},
		{text: head("/wait", 0, ""), due: 20 * time.Millisecond, hold: 30 * time.Millisecond},
	}
	got := fire(t.Context(), srv.Listener.Addr().String(), shots, time.Now())
	if got["418"] != 1 || got[gotNothing] != 2 || len(got) != 2 {
		t.Errorf("answers %v", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if from[attackerIP] < 2 || len(from) != 1 { // the last one may have left before it was seen
		t.Errorf("the server saw %v, want all from %s", from, attackerIP)
	}
}

func TestTraffic(t *testing.T) {
	s := settings{load: 0.53, warm: 2 * time.Second, span: 38 * time.Second}
	for _, sc := range scenarios {
		reqs, err := sc.traffic(s, 3)
		again, err2 := sc.traffic(s, 3)
		if err != nil || err2 != nil || len(reqs) != len(again) {
			t.Fatalf("%s: %d and %d requests, %v, %v", sc.name, len(reqs), len(again), err, err2)
		}
		clients, busy := map[int]bool{}, 0.0
		for i, q := range reqs {
			if q.ID != i || i > 0 && q.Due < reqs[i-1].Due || q.Due >= s.warm+s.span+time.Second {
				t.Fatalf("%s: request %d has the id %d and is due at %v", sc.name, i, q.ID, q.Due)
			}
			if !bytes.Equal(q.Body, again[i].Body) || !json.Valid(q.Body) || q.Stream != (sc.path == chatPath) {
				t.Fatalf("%s: request %d: %s", sc.name, i, q.Body)
			}
			if q.MaxTokens >= stopsAfter {
				t.Errorf("%s: an honest answer of %d tokens is cut off at %d", sc.name, q.MaxTokens, stopsAfter)
			}
			clients[q.client] = true
			busy += float64(q.MaxTokens) * (engine().Tuning.DecodeStepMS + engine().Tuning.DecodeSeqMS*5) / 1000
		}
		slots := float64(sc.servers * engine().MaxNumSeqs)
		if load := busy / (s.warm + s.span).Seconds() / slots; !near(load, s.load*sc.share, 0.08) {
			t.Errorf("%s: %.2f of the slots are used, want %.2f", sc.name, load, s.load*sc.share)
		}
		if len(clients) != honestClients {
			t.Errorf("%s: %d clients", sc.name, len(clients))
		}
	}
}

func TestPoisonHasOneBeginning(t *testing.T) {
	r, answered := rand.New(rand.NewPCG(1, 1)), 0
	for k := range 90 {
		text := string(onePrompt(r, k).text)
		if !strings.Contains(text, poison) {
			t.Fatalf("%s", text)
		}
		if !strings.Contains(text, "sim_status") {
			answered++
		}
	}
	if answered != 10 {
		t.Errorf("%d of 90 are answered, want 10", answered)
	}
}
