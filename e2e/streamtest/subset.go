package streamtest

import "strings"

// hinted is a usual request that is limited to endpoints.
func (t *run) hinted(i int, endpoints ...int) Request {
	r := t.chatIn(i)
	var addrs []string
	for _, at := range endpoints {
		addrs = append(addrs, t.Addr(at))
	}
	r.Headers = append(r.Headers, [2]string{"x-gateway-destination-endpoint-subset", strings.Join(addrs, ", ")})
	return r
}

// subsetScenarios are requests that are limited to some endpoints.
var subsetScenarios = []scenario{
	{name: "a subset", endpoints: 4, config: `"subset_hint":"header"`, run: func(t *run) {
		var streams []*stream
		for i := range 6 {
			streams = append(streams, t.begin(t.hinted(i, 3, 1)))
		}
		t.wantLoads(0, 3, 0, 3)
		streams = append(streams, t.chats(6)...)
		t.wantLoads(3, 3, 3, 3)
		t.finish(streams...)
		t.wantDrained()
	}},
	{
		name: "a subset that cannot be chosen", list: []Endpoint{{}, {State: Unhealthy}, {}},
		config: `"subset_hint":"header"`, run: func(t *run) {
			t.mark(decisions("none_in_subset"))
			s := t.Open(t.hinted(0, 1))
			if r := s.Result(); s.Upstream() >= 0 || r.Status != 503 ||
				!strings.HasSuffix(r.Body, `"type":"service_unavailable_error","code":"none_in_subset"}}`) {
				t.Errorf("at endpoint %d, answered %d, %q", s.Upstream(), r.Status, r.Body)
			}
			s.wantReason("none_in_subset")
			t.wantGrown(decisions("none_in_subset"), 1)
			t.finish(t.begin(t.hinted(0, 1, 2)))
			t.wantDrained()
		},
	},
	{name: "a subset that nobody asks for", endpoints: 2, run: func(t *run) {
		streams := []*stream{t.begin(t.hinted(0, 1)), t.begin(t.hinted(1, 1))}
		t.wantLoads(1, 1)
		t.finish(streams...)
	}},
	{
		name: "a retry in a subset", needs: []Ability{SecondHop}, endpoints: 4, config: `"subset_hint":"header"`,
		run: func(t *run) {
			for i := range 8 {
				s := t.Open(t.hinted(i, 0, 2))
				if first, second := s.Upstream(), s.Retry(); first+second != 2 || first == second {
					t.Errorf("of 0 and 2 endpoint %d was chosen, the retry went to %d", first, second)
				}
				t.finish(s)
			}
			t.wantDrained()
		},
	},
}
