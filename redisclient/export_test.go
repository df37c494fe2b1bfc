package redisclient

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/redisclient/lua"
)

// PollSoon has the next call of Poll ask Redis, however soon it comes.
func (s *Store) PollSoon() { s.polledAt = -lb.PollPeriod }

// PollAll has f call Poll so often that Redis is asked for every scope, and returns the result of the last call.
func (s *Store) PollAll(f func() time.Duration) (next time.Duration) {
	for range len(s.scopes) + 1 {
		s.PollSoon()
		next = f()
	}
	return next
}

// WaitingIn returns the requests that wait in the scope's queue.
func (s *Store) WaitingIn(scope string) []lb.LeaseID {
	if sc, ok := s.scopes[scope]; ok {
		return slices.Collect(maps.Keys(sc.ledger.waiters))
	}
	return nil
}

// TicketSize is the size of a ticket in Redis.
const TicketSize = 85

// ScriptOf returns the name of the script that a command runs, "" for none, also after SetClock.
func ScriptOf(command Value) string {
	if len(command.Items) < 3 || string(command.Items[0].Str) != "EVALSHA" {
		return ""
	}
	return ScriptName(string(command.Items[1].Str))
}

// ScriptText returns the text of the script with the name.
func ScriptText(name string) string { return scriptText(name) }

// ClockKeys are the keys with the s and the us of the time, for scripts after SetClock.
var ClockKeys = [2]string{"clock:s", "clock:us"}

// expiries are where scripts say for how long a key lives, but for the turn, which others take over at once, and the
// budgets, which live for hours anyway.
var expiries = regexp.MustCompile(`('PEXPIRE', [^,]+, |'PX', )(ARGV|KEEP|\d \* |keep|life|ttl|60000)`)

// SetClock has all scripts read the time from two keys in place of the server's clock, until the function is called
// that it returns. Keys then live 1000 times as long: they expire by the server's clock, which goes on where the test's
// clock stands still, as when the machine pauses for minutes.
func SetClock() (restore func()) {
	setText := func(f func(name string) string) {
		scriptText = f
		for _, s := range scripts {
			s.once = sync.Once{}
		}
	}
	setText(func(name string) string {
		text := lua.Script(name)
		for _, call := range []string{"redis.call('TIME')", "call('TIME')"} {
			text = strings.ReplaceAll(text, call, "redis.call('MGET', '"+ClockKeys[0]+"', '"+ClockKeys[1]+"')")
		}
		return expiries.ReplaceAllString(text, "${1}1000 * $2")
	})
	return func() { setText(lua.Script) }
}
