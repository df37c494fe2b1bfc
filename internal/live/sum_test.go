package live

import (
	"reflect"
	"testing"
)

// TestSum adds what gateways count by themselves, and takes once what they count together.
func TestSum(t *testing.T) {
	two, half, third := 2.0, 0.5, 0.25
	gateway := func(name, store string, requests int64) Gateway {
		return Gateway{
			Name: name, Up: true, Problems: []string{"p"},
			Clusters: []Cluster{{
				Name: "llm", Policy: "p", Unit: "requests", Store: store, PerS: 10, RefusedS: 1,
				Expected: &half, TTFT: &Quantiles{N: 1, P50: 100, P90: 200},
				Endpoints: []Endpoint{
					{
						Addr: "a:1", Health: "healthy", Requests: requests, Tokens: 10 * requests, Cap: 8, PushLimit: 4,
						Running: &two,
					},
				},
				Classes: []Class{{Name: "batch", Waiting: requests, RefusedS: 1}},
			}},
			Reasons: []Reason{{Policy: "p", Reason: "chosen", Total: 5, PerS: 1}},
			Regions: []Region{{Name: "us", RTTMS: 50 + requests, ForwardedS: 2, ServedS: 3}},
		}
	}
	want := func(requests, limit int64) Gateway {
		return Gateway{
			Name: "all", Up: true, Problems: []string{"a: p", "b: p"},
			Clusters: []Cluster{{
				Name: "llm", Policy: "p", Unit: "requests", PerS: 20, RefusedS: 2, Expected: &half,
				TTFT: &Quantiles{N: 2, P50: 100, P90: 200},
				Endpoints: []Endpoint{{
					Addr: "a:1", Health: "healthy", Requests: requests, Tokens: 10 * requests, Cap: 2 * limit,
					PushLimit: limit, Running: &two,
				}},
				Classes: []Class{{Name: "batch", Waiting: requests, RefusedS: 2}},
			}},
			Reasons: []Reason{{Policy: "p", Reason: "chosen", Total: 10, PerS: 2}},
			Regions: []Region{{Name: "us", RTTMS: 53, ForwardedS: 4, ServedS: 6}},
		}
	}
	for store, want := range map[string]Gateway{"embedded": want(8, 8), "redis": want(5, 4)} {
		want.Clusters[0].Store = store
		got := Sum(&Frame{Gateways: []Gateway{gateway("a", store, 3), gateway("b", store, 5)}})
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", store, got, want)
		}
	}

	a, b := gateway("a", "embedded", 1), gateway("b", "embedded", 1)
	c := &b.Clusters[0]
	c.Policy, c.Endpoints[0].Health, c.PerS, c.Expected, c.TTFT.N, c.TTFT.P50 = "q", "ejected", 30, &third, 3, 200
	b.Up, b.Regions[0].Available = false, true
	got := Sum(&Frame{Gateways: []Gateway{a, b}})
	sum := &got.Clusters[0]
	if sum.Policy != "" || sum.Endpoints[0].Health != "ejected" || *sum.Expected != 0.3125 || sum.TTFT.P50 != 175 ||
		!got.Up || !got.Regions[0].Available {
		t.Errorf("%+v", got)
	}
	b.Region = "us"
	got = Sum(&Frame{Gateways: []Gateway{a, b}})
	if len(got.Clusters) != 2 || got.Clusters[0].Name != "llm (no region)" || got.Clusters[1].Name != "llm (us)" {
		t.Errorf("%+v", got.Clusters)
	}
}
