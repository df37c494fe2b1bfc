package streamtest

import (
	"fmt"
	"maps"
	"strings"
	"time"
)

// rankHeader names the rank of a server that is to serve a request.
const rankHeader = "x-data-parallel-rank"

// Servers of up to four ranks: as configured, and as metrics show them.
const (
	fourRanks    = `"ranks":{"enabled":true,"count":4}`
	countedRanks = `"ranks":{"enabled":true},` + often
)

// rankScenarios are those of servers with data-parallel ranks.
var rankScenarios = []scenario{
	{name: "each rank is an endpoint", endpoints: 2, config: fourRanks, run: func(t *run) {
		untilEachRank(t, "all ranks get one", 4, 4)
		t.wantDrained()
	}},
	{name: "ranks by metrics", policy: endpointMetrics, endpoints: 2, config: countedRanks, run: func(t *run) {
		t.setPages(rankedPage(4), rankedPage(3))
		untilEachRank(t, "all ranks get one", 4, 3)
		t.setPages(rankedPage(2), rankedPage(3)) // restarted with fewer
		untilEachRank(t, "with fewer", 2, 3)
		t.setPages(vllm(0), rankedPage(3))
		untilEachRank(t, "without ranks the server decides", 0, 3)
		t.wantDrained()
	}},
	{name: "a client asks for a rank", endpoints: 1, config: fourRanks, run: func(t *run) {
		r := chat()
		r.Headers = append(r.Headers, [2]string{rankHeader, "7"})
		s := t.begin(r)
		if got := s.Received().Headers[rankHeader]; got == "" || got > "3" {
			t.Errorf("the endpoint is asked for rank %q", got)
		}
		t.finish(s)
		t.apply("") // switched off, it is the client's business
		s = t.begin(r)
		if got := s.Received().Headers[rankHeader]; got != "7" {
			t.Errorf("switched off: the endpoint is asked for rank %q", got)
		}
		t.finish(s)
		t.wantDrained()
	}},
	{name: "a retry keeps the rank", endpoints: 2, config: fourRanks, run: func(t *run) {
		s := t.begin(chat())
		rank := s.Received().Headers[rankHeader]
		s.Retry()
		if got := s.Received().Headers[rankHeader]; got != rank || rank == "" {
			t.Errorf("tried with rank %q, then with %q", rank, got)
		}
		t.finish(s)
		t.wantDrained()
	}},
}

// rankedPage is a page of vLLM's with so many idle engines.
func rankedPage(ranks int) string {
	var b strings.Builder
	for i := range ranks {
		for _, name := range []string{"running", "waiting"} {
			fmt.Fprintf(&b, "vllm:num_requests_%s{engine=\"%d\",model_name=\"m\"} 0.0\n", name, i)
		}
	}
	return b.String()
}

// untilEachRank sends as many requests as there are ranks until twice in a row each rank has one of them: the first
// time may have met one worker only. Of each endpoint there are so many, 0 for one that is asked for none.
func untilEachRank(t *run, what string, ranks ...int) {
	t.Helper()
	want := map[string]int{}
	for i, n := range ranks {
		for rank := range n {
			want[fmt.Sprint(i, " ", rank)] = 1
		}
		if n == 0 {
			want[fmt.Sprint(i, " ")] = 1
		}
	}
	var at map[string]int
	for good, tries := 0, 0; tries < 60; tries++ {
		if at = atRanks(t, len(want)); !maps.Equal(at, want) {
			good = 0
			continue
		}
		if good++; good == 2 {
			return
		}
	}
	t.Errorf("%s: never; at last requests were at %v", what, at)
}

// atRanks sends so many requests that are open at the same time, and returns how many each endpoint and rank has had.
func atRanks(t *run, n int) map[string]int {
	t.Helper()
	at, streams := map[string]int{}, make([]*stream, n)
	for i := range streams {
		streams[i] = t.begin(t.chatIn(i))
		at[fmt.Sprint(streams[i].Upstream(), " ", streams[i].Received().Headers[rankHeader])]++
	}
	t.Advance(250 * time.Millisecond) // Higress shows pages only while a request is served
	t.finish(streams...)
	return at
}
