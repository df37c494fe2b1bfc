package simulate

import (
	"fmt"
	"testing"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate/engine"
	"github.com/warmgate/warmgate/plugin/config"
)

// A server chooses among its ranks as vLLM does: the first with the least of running and four times waiting requests,
// by counts that are told ten times a second, and what was sent since.
func TestServersChooseAsVLLMDoes(t *testing.T) {
	var ranks []*engine.Engine
	for range 3 {
		ranks = append(ranks, engine.New(enginesim.Config{}, enginesim.Times{}))
	}
	add := func(rank int) {
		r := &engine.Request{Prompt: []engine.Part{{Name: 1, Tokens: 16}}, Answer: 100}
		if err := ranks[rank].Add(r, 0); err != nil {
			t.Fatal(err)
		}
	}
	in := &inside{ranks: ranks}
	for i, want := range []int{0, 1, 2, 0} {
		if got := in.choose(0); got != want {
			t.Errorf("choice %d of idle ranks is %d", i, got)
		}
	}
	for range 3 {
		add(0)
	}
	add(1)
	for _, e := range ranks {
		e.Begin(0)
	}
	if got := in.choose(countsAge - 1); got != 1 {
		t.Errorf("by old counts the choice is %d", got)
	}
	for i, want := range []int{2, 1, 0, 2} { // 3, 1 and 0 run, and what is sent counts four
		if got := in.choose(countsAge); got != want {
			t.Errorf("choice %d is %d, want %d", i, got, want)
		}
	}
}

// Whoever chooses the rank, each request is served once, by the endpoints that the contender has; steps that go
// together take longer.
func TestRanksServeAll(t *testing.T) {
	load := small()
	for _, together := range []bool{false, true} {
		for _, raw := range []string{
			`{"lb_policy":"prefix_cache","lb_config":{"ranks":{"enabled":true,"count":4}}}`,
			`{"lb_policy":"prefix_cache"}`, "",
		} {
			t.Run(fmt.Sprint(together, raw), func(t *testing.T) {
				c := Contender{Name: "least_request", Native: "least_request"}
				if raw != "" {
					var err error
					if c, err = ParseContender("plugin", []byte(raw), config.Higress); err != nil {
						t.Fatal(err)
					}
				}
				l := Alone(Alike(8, Engine{Config: enginesim.Config{NumBlocks: 4096}}))
				alone, err := l.Run(load.New(1), c, 1, nil)
				if err != nil {
					t.Fatal(err)
				}
				l.Pools[0].Ranks = Ranks{Of: 4, Together: together}
				r, err := l.Run(load.New(1), c, 1, nil)
				if err != nil {
					t.Fatal(err)
				}
				if r.Served != load.Requests || r.Unplaced != 0 || r.Endpoints != 8 || r.Uneven > 2 {
					t.Errorf("%+v", figures(r))
				}
				if together && r.PerToken <= alone.PerToken {
					t.Errorf("a token takes %v, where none waits for others %v", r.PerToken, alone.PerToken)
				}
			})
		}
	}
	l := Alone(Alike(8, DefaultEngine()))
	l.Pools[0].Ranks.Of = 3
	if _, err := l.Run(load.New(1), Contender{Native: "random"}, 1, nil); err == nil {
		t.Error("eight engines are servers of three")
	}
}
