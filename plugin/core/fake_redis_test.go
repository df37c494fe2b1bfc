package core

import (
	"strconv"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/pipe"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/redisclient"
)

// fakeRedis connects the fake gateway to a real Redis: commands are carried out at once, in real time, and their
// answers arrive when the test decides, in simulated time.
type fakeRedis struct {
	latest  *fakeLink // to it that was made
	process *fakeProcess
	conn    *pipe.Conn
	latency time.Duration // of an answer; 0: it is there before the call returns
	fate    fate
	cut     []byte        // what is answered in the place of Redis's answer, nil for that itself
	replica *pipe.Conn    // where half of the commands go, nil for none
	login   error         // with which commands end that are not sent, since Redis refuses the login; nil for none
	sent    int           // commands
	wait    time.Duration // that a step of a test takes at least
	manual  bool          // the test lets time pass itself
}

// fate is what becomes of commands.
type fate int

const (
	redisAnswers fate = iota
	redisRefuses      // the gateway finds no server
	redisSilent       // carried out, but no answer comes
)

// attachRedis gives the process a Redis, with nothing in it.
func (p *fakeProcess) attachRedis(t testing.TB, s *redisserver.Server) *fakeRedis {
	t.Helper()
	r := p.redis
	r.conn = dialPipe(t, s)
	r.value("FLUSHALL")
	return r
}

// dialPipe connects to the server.
func dialPipe(t testing.TB, s *redisserver.Server) *pipe.Conn {
	t.Helper()
	conn, err := pipe.Dial(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// do carries out a command and returns the raw reply.
func (r *fakeRedis) do(cmd []byte) []byte {
	reply, err := r.conn.Carry(cmd)
	if err != nil {
		r.process.t.Fatal(err)
	}
	return reply
}

// await advances the clock by the answers that one step of a test may need: a list of candidates or a script may have
// to be sent first.
func (r *fakeRedis) await() {
	if r.latency > 0 && !r.manual {
		r.process.advance(max(r.wait, 4*r.latency))
	}
}

// value carries out a command and returns its answer.
func (r *fakeRedis) value(words ...string) redisclient.Value {
	v, _, err := redisclient.Parse(r.do(redisclient.AppendCommand(nil, words...)))
	if err != nil || v.Kind == redisclient.ErrorReply {
		r.process.t.Fatalf("%q: %s %v", words, v.Str, err)
	}
	return v
}

// loads returns what is in flight by endpoint, as Redis counts it.
func (r *fakeRedis) loads() map[string]lb.Load {
	if r.conn == nil {
		return nil
	}
	k := redisclient.KeysOf(fakeCluster)
	rows := map[string]int{}
	for items := r.value("HGETALL", k.Rows).Items; len(items) >= 2; items = items[2:] {
		rows[string(items[0].Str)], _ = strconv.Atoi(string(items[1].Str))
	}
	delete(rows, "") // the spare ones
	return redisclient.ParseLoads(r.value("GET", k.Table).Str, rows)
}

// fakeLink is one VM's way to it.
type fakeLink struct {
	redis *fakeRedis
	login config.Redis
	kept  time.Duration
}

func (l *fakeLink) Connect(now time.Duration, r config.Redis) { l.login, l.kept = r, now }

func (l *fakeLink) Expire(time.Duration) time.Duration { return 0 }

// Postpone implements Link.
func (l *fakeLink) Postpone(time.Duration) {}

func (l *fakeLink) Do(now time.Duration, cmd []byte, done redisclient.Done) {
	r := l.redis
	r.sent++
	if r.replica != nil && r.process.rand.IntN(2) == 0 {
		r.conn, r.replica = r.replica, r.conn
	}
	worker, own := r.process.inside, append([]byte(nil), cmd...)
	defer worker.GW.Enter(worker.Context()) // the call is made in the name of the configuration
	deliver := func(reply []byte, err error) {
		if r.latency == 0 {
			done(now, reply, err)
			return
		}
		answer := func() { done(worker.ReadClock(), reply, err) }
		r.process.after(r.latency, func() {
			context := worker.Newest().Context()
			r.process.in(worker, func() { worker.Callback(context, "an answer of Redis", answer, nil) })
		})
	}
	switch {
	case r.login != nil:
		deliver(nil, r.login)
	case r.conn == nil || r.fate == redisRefuses:
		deliver(nil, redisclient.ErrUnreachable)
	case r.fate == redisSilent:
		r.do(own)
	case r.cut != nil:
		r.do(own)
		deliver(r.cut, nil)
	default:
		deliver(r.do(own), nil)
	}
}
