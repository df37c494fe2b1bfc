package redisclient_test

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/redisclient"
)

// All keys of a scope are in one slot, whatever its name, and each of the scopes has another slot.
func TestKeysShareASlot(t *testing.T) {
	slots := map[int]string{}
	for _, scope := range []string{
		"llm", "outbound|80||llm.default.svc.cluster.local", "模型", "a b\r\n", "a:b",
		"{", "}", "{}", "a{b}c", "}{", "{{x}}", "{a}{b}",
	} {
		k := redisclient.KeysOf(scope)
		slot := redisserver.Slot(k.Table)
		for _, key := range []string{
			k.Rows, k.Listed, k.Owners, k.Budget, k.Leases + "1f", k.Candidates + "2g", k.Pages + "}2s",
		} {
			if redisserver.Slot(key) != slot {
				t.Errorf("scope %q: %q is not in the slot of %q", scope, key, k.Table)
			}
		}
		for _, key := range []string{k.Table, k.Rows, k.Listed, k.Owners, k.Budget, k.Leases, k.Candidates, k.Pages} {
			if !strings.HasPrefix(key, redisclient.KeyPrefix) {
				t.Errorf("scope %q: the key %q", scope, key)
			}
		}
		if other, taken := slots[slot]; taken {
			t.Errorf("scopes %q and %q share a slot", scope, other)
		}
		slots[slot] = scope
	}
}

// Every key has a time to live, those that late commands create included.
func TestKeysVanish(t *testing.T) {
	const maxTTL = 2 * time.Minute
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			server := redisserver.StartT(t, redisserver.Options{Version: version})
			w := dial(t, server)
			loadScripts(w)
			w.value("FLUSHALL")
			s := newManualStore(w, newMemory())
			check := func(when string, want int) {
				t.Helper()
				keys := w.value("KEYS", "*").Items
				if len(keys) < want {
					t.Errorf("%s: %d keys, want %d at least", when, len(keys), want)
				}
				for _, key := range keys {
					ttl := time.Duration(w.value("PTTL", string(key.Str)).Int) * time.Millisecond
					if ttl <= 0 || ttl > maxTTL {
						t.Errorf("%s: %s lives for %v", when, key.Str, ttl)
					}
				}
			}
			late := func(f func()) { // what f sends arrives after all data were lost
				w.fate = func([]byte) int { return runsLate }
				f()
				w.fate = nil
				w.value("FLUSHALL")
				w.deliver()
			}
			reserve(s, 0, 1).want(t, "granted 0")
			check("a reservation", 5)
			s.Amend(0, 1, "10.0.9.9:80", 4)
			check("an amendment", 5)
			s.Heartbeat(time.Second)
			check("a heartbeat", 5)
			late(func() { s.Amend(time.Second, 1, "", 5) })
			check("a late amendment", 0)
			s.Heartbeat(2 * time.Second)
			check("a heartbeat after a loss", 4)
			late(func() { s.Release(2*time.Second, 1) })
			check("a late release", 0)
			late(func() { reserve(s, 2*time.Second, 2) })
			check("a late reservation", 0)
			late(func() { s.Expire(time.Minute) })
			check("a late tombstone", 1)
			late(func() { s.Adopt(time.Minute, 3, "llm", "10.0.9.9:80", 1) })
			check("a late adoption", 3)
			late(func() { s.Heartbeat(time.Minute) })
			check("a late heartbeat", 3)
		})
	}
}

func TestLoads(t *testing.T) {
	table := append(make([]byte, 16), "\x01\x00\x00\x02\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x07"...)
	rows := map[string]int{"a": 0, "b": 1, "cut": 2, "behind": 3, "before": -1}
	got := redisclient.ParseLoads(table, rows)
	a, b := lb.Load{Requests: 1, Tokens: 2}, lb.Load{Requests: 1<<24 - 1, Tokens: 1<<48 - 1}
	if len(got) != 2 || got["a"] != a || got["b"] != b {
		t.Errorf("%v", got)
	}
	if got := redisclient.ParseLoads(nil, rows); len(got) != 0 {
		t.Errorf("without a table: %v", got)
	}
}

func TestLease(t *testing.T) {
	const id = "\x01\x02\x03\x04\x05\x06\x07\x08"
	for _, c := range []struct {
		field, value string
		ok           bool
	}{
		{id, "\x02\x01\x09\x00\x00\x80\x05", true},
		{id, "\x02\x01\x09\x00\x00\x80\x05\x80", true},
		{id, "", false},
		{"b", "12345678", false},
		{id, "123456", false},
		{id, "123456789", false},
	} {
		got, row, tokens, ok := redisclient.ParseLease(c.field, []byte(c.value))
		if ok != c.ok || ok && (got != 0x0807060504030201 || row != 0x0102 || tokens != 0x80000009) {
			t.Errorf("%q %q: %x %x %x %v", c.field, c.value, got, row, tokens, ok)
		}
	}
}
