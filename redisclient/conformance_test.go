package redisclient_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// backend is a Redis server for storetest.
type backend struct {
	t        tb
	server   *redisserver.Server
	conn     *syncTransport
	kv       *memory
	owners   uint64
	fallback bool             // owners have a FallbackStore
	open     []*syncTransport // connections
}

func newBackend(t tb, s *redisserver.Server) *backend {
	b := &backend{t: t, server: s, kv: newMemory()}
	b.conn = b.dial()
	b.conn.roundTrip(redisclient.AppendCommand(nil, "FLUSHALL"))
	return b
}

// openBackends returns a function that opens one backend after the other on a server. Opening one closes the
// connections of the previous one.
func openBackends(s *redisserver.Server, fallback bool) func(t *testing.T) storetest.Backend {
	var last *backend
	return func(t *testing.T) storetest.Backend {
		if last != nil {
			last.close()
		}
		last = newBackend(t, s)
		last.fallback = fallback
		return last
	}
}

func (b *backend) dial() *syncTransport {
	w := dial(b.t, b.server)
	b.open = append(b.open, w)
	return w
}

func (b *backend) close() {
	for _, w := range b.open {
		_ = w.conn.Close()
	}
}

// NewOwner implements storetest.Backend. Each owner has a connection of its own, as workers have.
func (b *backend) NewOwner() lb.Store {
	b.owners++
	s := redisclient.New(b.dial(), redisclient.Options{
		Owner: b.owners << 48, TTL: storetest.TTL, Timeout: 20 * time.Millisecond, KV: b.kv,
	})
	if !b.fallback {
		return eager{s}
	}
	if err := memstore.Prepare(b.kv); err != nil {
		b.t.Fatal(err)
	}
	l := lb.NewFallbackStore(s, memstore.New(b.kv, b.owners, storetest.TTL))
	l.OnFallback = func(err error) { b.t.Errorf("fell to the embedded store: %v", err) }
	return eagerFallback{l, s}
}

// Loads implements storetest.Backend.
func (b *backend) Loads(scope string, addrs []string) []lb.Load {
	b.t.Helper()
	loads := b.conn.loads(scope)
	out := make([]lb.Load, len(addrs))
	for i, a := range addrs {
		out[i] = loads[a]
	}
	return out
}

// IndexBlocks implements storetest.Backend.
func (b *backend) IndexBlocks(bytes int) int { return redisclient.IndexBlocks(bytes) }

// loads reads the totals of a scope.
func (w *syncTransport) loads(scope string) map[string]lb.Load {
	k := redisclient.KeysOf(scope)
	return redisclient.ParseLoads(w.value("GET", k.Table).Str, w.rows(scope))
}

// rows reads the rows of a scope's endpoints.
func (w *syncTransport) rows(scope string) map[string]int {
	rows := map[string]int{}
	items := w.value("HGETALL", redisclient.KeysOf(scope).Rows).Items
	for i := 0; i+1 < len(items); i += 2 {
		if len(items[i].Str) == 0 { // the free rows
			continue
		}
		row, err := strconv.Atoi(string(items[i+1].Str))
		if err != nil {
			w.t.Fatal(err)
		}
		rows[string(items[i].Str)] = row
	}
	return rows
}

// value sends a command and returns its parsed reply, which must not be an error.
func (w *syncTransport) value(words ...string) redisclient.Value {
	w.t.Helper()
	v, _, err := redisclient.Parse(w.roundTrip(redisclient.AppendCommand(nil, words...)))
	if err != nil || v.Kind == redisclient.ErrorReply {
		w.t.Fatalf("%q: %s %v", words, v.Str, err)
	}
	return v
}

// Pass implements storetest.Passer. Redis's clock cannot be moved, so all times that it has stored are moved back.
func (b *backend) Pass(d time.Duration) {
	for _, key := range b.conn.value("KEYS", redisclient.KeyPrefix+"*:owners").Items {
		for _, owner := range b.conn.value("ZRANGE", string(key.Str), "0", "-1").Items {
			b.conn.value("ZINCRBY", string(key.Str), strconv.FormatInt(-d.Milliseconds(), 10), string(owner.Str))
		}
	}
	b.conn.endTurns()
	b.conn.ageRows(d)
	if ticks := d / (4 * time.Second); ticks > 0 {
		b.conn.agePages(uint16(ticks))
	}
}

// setClock sets the clock that scripts have after SetClock, by which so much time has passed. No two calls set the
// same microsecond: an epoch is named by the one in which it began, and a real clock that is set back hardly shows one
// again. Turns live by the server's own clock: that of a dead owner would outlast all that follows.
func (w *syncTransport) setClock(now, passed time.Duration) {
	const turn = 100 * time.Millisecond // as in heartbeat.lua
	w.set++
	now = now.Truncate(time.Millisecond) + time.Duration(w.set%1000)*time.Microsecond
	w.value("MSET", redisclient.ClockKeys[0], strconv.Itoa(int(now/time.Second)),
		redisclient.ClockKeys[1], strconv.Itoa(int(now%time.Second/time.Microsecond)))
	if passed >= turn {
		w.endTurns()
	}
}

// stopClock has scripts read a clock that stands still. By the server's own, an owner that did not poll for 250 ms, as
// on a busy machine, would be silent.
func (w *syncTransport) stopClock(t *testing.T) {
	t.Cleanup(redisclient.SetClock())
	w.setClock(time.Hour, 0)
}

// endTurns ends the turns of owners to return leases of the dead.
func (w *syncTransport) endTurns() {
	for _, key := range w.value("KEYS", redisclient.KeyPrefix+"*:turn").Items {
		w.value("DEL", string(key.Str))
	}
}

// histories has rapid run so many random histories on the default version, and a tenth of them on others: these differ
// in the server, not in the scripts. With -short, rapid runs a fifth of what it is told.
func histories(t *testing.T, version string, n int) {
	t.Helper()
	if version != redisserver.Default {
		n /= 10
	}
	storetest.SetRapid(t, "checks", strconv.Itoa(n))
}

// As many conversations behind one prompt as the suite has for stores without round trips.
func TestManyConversationsBehindOnePrompt(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	talks := 10_000
	if testing.Short() {
		talks /= 10
	}
	storetest.Shared(t, newBackend(t, server), 33, 1, talks)
}
