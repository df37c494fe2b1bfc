package discovery

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"testing"
)

// Envoy shows limits also where none is configured: 1024 requests.
func TestBreakersOfSamples(t *testing.T) {
	for _, version := range []string{"1.36.2", "1.40.0", "1.36.2-removed", "1.40.0-removed"} {
		text, err := os.ReadFile("testdata/clusters-" + version + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]Breaker{}
		for _, name := range []string{"llm", "dns", "empty", "admin", "outbound|8000||llm.models.svc.cluster.local"} {
			want[name] = Breaker{MaxRequests: 1024}
		}
		want["llm"] = Breaker{1024, 6}
		_, got := ParseClusters(text)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", version, got, want)
		}
	}
}

func TestBreakers(t *testing.T) {
	const host = "c::1.2.3.4:80::health_flags::healthy\n"
	for name, c := range map[string]struct {
		text string
		want map[string]Breaker
	}{
		"nothing":  {"", map[string]Breaker{}},
		"no limit": {host + "c::1.2.3.4:80::rq_active::3\n", map[string]Breaker{}},
		"several hosts, of which one leaves": {
			"c::default_priority::max_requests::4\nc::1.2.3.4:80::rq_active::3\n" +
				"c::[::1]:80::rq_active::2\nc::[::1]:80::health_flags::/pending_dynamic_removal\n",
			map[string]Breaker{"c": {4, 5}},
		},
		"nothing may be sent": {"c::default_priority::max_requests::0\n", map[string]Breaker{"c": {}}},
		"other limits": {
			"c::default_priority::max_connections::2\nc::high_priority::max_requests::3\n", map[string]Breaker{},
		},
		"no limit in effect": {
			"c::default_priority::max_requests::4294967295\nd::default_priority::max_requests::4294967294\n",
			map[string]Breaker{"d": {4294967294, 0}},
		},
		"bad numbers": {
			"c::default_priority::max_requests::-1\nd::default_priority::max_requests::x\n" +
				"e::default_priority::max_requests::1\ne::1.2.3.4:80::rq_active::-7\n",
			map[string]Breaker{"e": {1, 0}},
		},
		"absurd numbers": {
			"c::default_priority::max_requests::1\nc::1.2.3.4:80::rq_active::9223372036854775807\n" +
				"c::1.2.3.5:80::rq_active::9223372036854775807\nx::y\n",
			map[string]Breaker{"c": {1, maxActive}},
		},
		"cut off":             {"c::default_priority::max_requests::10", map[string]Breaker{}},
		"separator in a name": {"a::b::default_priority::max_requests::7\n", map[string]Breaker{"a::b": {7, 0}}},
		"a host of that name": {"default_priority::1.2.3.4:80::max_requests::7\n", map[string]Breaker{}},
		"not in front of them": {
			"c::1.2.3.4:80::rq_active::3\nc::default_priority::max_requests::7\n",
			map[string]Breaker{"c": {7, 0}},
		},
	} {
		_, got := ParseClusters([]byte(c.text))
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		packed := AppendBreakers([]byte("in front"), got)
		if again, err := ParseBreakers(packed[len("in front"):]); err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%s: %v became %v, %v", name, got, again, err)
		}
	}
}

func TestParseBreakersBroken(t *testing.T) {
	good := AppendBreakers(nil, map[string]Breaker{"a": {300, 2}, "b": {4, 0}})
	for end := range good {
		if got, err := ParseBreakers(good[:end]); !errors.Is(err, ErrBreakers) || got != nil {
			t.Errorf("first %d bytes: got %v, %v", end, got, err)
		}
	}
	for name, raw := range map[string][]byte{
		"other version": append([]byte{9}, good[1:]...),
		"trailing byte": append(bytes.Clone(good), 0),
		"too many":      {1, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"twice":         {1, 2, 1, 'a', 1, 0, 1, 'a', 1, 0},
		"no limit":      {1, 1, 1, 'a', 0xff, 0xff, 0xff, 0xff, 0x0f, 0},
		"absurd":        {1, 1, 1, 'a', 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f},
	} {
		if got, err := ParseBreakers(raw); !errors.Is(err, ErrBreakers) || got != nil {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

// FuzzParseBreakers checks that what is read can be written and read again.
func FuzzParseBreakers(f *testing.F) {
	f.Add(AppendBreakers(nil, nil))
	f.Add(AppendBreakers(nil, map[string]Breaker{"a": {300, 2}, "outbound|80||b": {4, 0}}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		breakers, err := ParseBreakers(raw)
		if err != nil {
			return
		}
		again, err := ParseBreakers(AppendBreakers(nil, breakers))
		if err != nil || len(breakers)*minBreaker > len(raw) || !reflect.DeepEqual(again, breakers) {
			t.Fatalf("%q: %v, then %v, %v", raw, breakers, again, err)
		}
	})
}
