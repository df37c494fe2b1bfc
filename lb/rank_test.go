package lb

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func TestRankOf(t *testing.T) {
	for addr, want := range map[string]struct {
		server string
		rank   int
		is     bool
	}{
		"10.0.0.1:8000#2":                 {"10.0.0.1:8000", 2, true},
		"10.0.0.1:8000#63":                {"10.0.0.1:8000", 63, true},
		"[fd00::1]:8000#0":                {"[fd00::1]:8000", 0, true},
		"envoy://tunnel/10.0.0.1:8000#11": {"envoy://tunnel/10.0.0.1:8000", 11, true},
		"10.0.0.1:8000#64":                {is: false},
		"10.0.0.1:8000#02":                {is: false},
		"10.0.0.1:8000#":                  {is: false},
		"10.0.0.1:8000":                   {is: false},
		"llm#1":                           {is: false},
		"llm1#1":                          {is: false},
		"outbound|8000||llm#1":            {is: false},
		"/tmp/llm:x#1":                    {is: false},
		"#1":                              {is: false},
		"":                                {is: false},
	} {
		if !want.is {
			want.server = addr
		}
		rank, is := RankOf(addr)
		if server := ServerOf(addr); server != want.server || rank != want.rank || is != want.is {
			t.Errorf("%q: rank %d (%v) of %q, want %+v", addr, rank, is, server, want)
		}
	}
}

func TestRankAddr(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		server := rapid.String().Draw(t, "host") + ":" + strconv.Itoa(rapid.IntRange(0, 65535).Draw(t, "port"))
		rank := rapid.IntRange(0, MaxRanks-1).Draw(t, "rank")
		addr := RankAddr(server, rank)
		if got, is := RankOf(addr); ServerOf(addr) != server || got != rank || !is {
			t.Fatalf("%q is rank %d of %q", addr, got, ServerOf(addr))
		}
	})
}
