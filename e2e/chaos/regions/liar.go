package regions

import (
	"encoding/base64"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/blake2s"

	"github.com/warmgate/warmgate/internal/wire"
	lbregion "github.com/warmgate/warmgate/lb/region"
)

// What the gateways of regions speak with.
const (
	liarName     = "liar" // a region that is a peer in some scenes only
	regionSecret = "0123456789abcdef"
	probePath    = "/.well-known/warmgate/region"
	probeHeader  = "x-warmgate-probe"
	answerHeader = "x-warmgate-probe-answer"
	hopHeader    = "x-warmgate-hop"
)

// liar is the gateway of a region that has the secret and answers probes, but not truly.
type liar struct {
	*httptest.Server

	mu        sync.Mutex
	key       *lbregion.Key // not safe for several goroutines
	lie       lie
	first     string // its first genuine answer, and when that was
	firstAt   time.Duration
	probes    int // that it has got since the lie began
	forwarded int // other requests
}

// lie is an answer to a probe.
type lie struct {
	name   string
	answer func(l *liar, probe *lbregion.Route, now time.Duration) string
}

var (
	room  = lbregion.State{Open: 100}
	other = lbregion.NewKey("another secret that nobody else has")
)

// lies are answers that must be refused.
var lies = []lie{
	{"signed with another secret", func(_ *liar, p *lbregion.Route, now time.Duration) string {
		return other.SignAnswer(p, now, room, nil)
	}},
	{"signature changed", func(l *liar, p *lbregion.Route, now time.Duration) string {
		text := []byte(l.key.SignAnswer(p, now, room, nil))
		text[len(text)-8] ^= 1
		return string(text)
	}},
	{"numbers changed", func(l *liar, p *lbregion.Route, now time.Duration) string {
		text := []byte(l.key.SignAnswer(p, now, room, nil))
		text[20] ^= 2
		return string(text)
	}},
	again,
	{"an answer to nobody's question", func(l *liar, p *lbregion.Route, now time.Duration) string {
		asked := *p
		asked.Nonce++
		return l.key.SignAnswer(&asked, now, room, nil)
	}},
	{"as another region", func(l *liar, p *lbregion.Route, now time.Duration) string {
		asked := *p
		asked.To = "eu"
		return l.key.SignAnswer(&asked, now, room, nil)
	}},
	{"as the one that asks", func(l *liar, p *lbregion.Route, now time.Duration) string {
		asked := *p
		asked.To = p.From
		return l.key.SignAnswer(&asked, now, room, nil)
	}},
	{"an hour old", func(l *liar, p *lbregion.Route, now time.Duration) string {
		return l.key.SignAnswer(p, now-time.Hour, room, nil)
	}},
	{"from tomorrow", func(l *liar, p *lbregion.Route, now time.Duration) string {
		return l.key.SignAnswer(p, now+24*time.Hour, room, nil)
	}},
	{"the question", func(l *liar, p *lbregion.Route, now time.Duration) string {
		return l.key.SignProbe(p.To, p.From, now, p.Nonce)
	}},
	{"too many servers", absurd(lbregion.MaxOpen+1, 0, 0, 0)},
	{"endless servers", absurd(math.MaxUint64, 0, 0, 0)},
	{"an endless queue", absurd(1, 1<<63, 0, 0)},
	{"an endless wait", absurd(1, 0, math.MaxUint64, 0)},
	{"too many views", absurd(1, 0, 0, 200)},
	{"no numbers", func(l *liar, p *lbregion.Route, now time.Duration) string {
		return seal(values(p, now))
	}},
	{"garbage", func(*liar, *lbregion.Route, time.Duration) string { return "1a" + strings.Repeat("\xff", 50) }},
	{"a long text", func(*liar, *lbregion.Route, time.Duration) string { return "1a" + strings.Repeat("A", 50_000) }},
	{"nothing", func(*liar, *lbregion.Route, time.Duration) string { return "" }},
}

// again is its first answer, when that is too late: until then it is as good as a slow one.
var again = lie{"its first answer again", func(l *liar, p *lbregion.Route, now time.Duration) string {
	switch {
	case l.first == "":
		l.first, l.firstAt = l.key.SignAnswer(p, now, room, nil), now
	case now-l.firstAt > lbregion.Timeout:
		return l.first
	}
	return ""
}}

// truth is a genuine answer, with room that there is not.
var truth = lie{"room that it has not", func(l *liar, p *lbregion.Route, now time.Duration) string {
	return l.key.SignAnswer(p, now, room, nil)
}}

// values are those that every answer begins with.
func values(p *lbregion.Route, now time.Duration) wire.Writer {
	return wire.Writer(nil).Text(p.To).Text(p.From).Uint64(uint64(now.Milliseconds())).Uint64(p.Nonce)
}

// absurd is an answer with numbers that no genuine one has, with a good signature.
func absurd(open, queued, wait uint64, views byte) func(*liar, *lbregion.Route, time.Duration) string {
	return func(_ *liar, p *lbregion.Route, now time.Duration) string {
		w := values(p, now).Uvarint(open).Uvarint(queued).Uvarint(wait).Uvarint(uint64(views))
		for range views {
			w = w.Uint32(1).Byte(3).Uvarint(0)
		}
		return seal(w)
	}
}

// seal signs an answer as package region documents it. That does not sign what is out of range.
func seal(w wire.Writer) string {
	key := blake2s.Sum256([]byte(regionSecret))
	mac, err := blake2s.New256(key[:])
	if err != nil {
		panic(err) // of a key that is too long, which this is not
	}
	mac.Write([]byte{'1', 'a', 0, 0}) // version, kind, and the length of no subject
	mac.Write(w)
	return "1a" + base64.RawURLEncoding.EncodeToString(mac.Sum(w))
}

func newLiar() *liar {
	l := &liar{key: lbregion.NewKey(regionSecret), lie: lies[len(lies)-1]}
	l.Server = httptest.NewUnstartedServer(http.HandlerFunc(l.answer))
	l.Config.Protocols = new(http.Protocols)
	l.Config.Protocols.SetHTTP1(true)
	l.Config.Protocols.SetUnencryptedHTTP2(true) // as the gateways speak with each other
	l.Start()
	return l
}

func (l *liar) addr() string { return l.Listener.Addr().String() }

func (l *liar) answer(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.URL.Path != probePath {
		if l.forwarded++; l.forwarded%2 == 0 {
			panic(http.ErrAbortHandler) // which breaks off the request
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	now := wall()
	probe, err := l.key.ReadProbe(r.Header.Get(probeHeader), liarName, now)
	if err != nil {
		return // not one of the gateways
	}
	l.probes++
	if text := l.lie.answer(l, &probe, now); text != "" {
		w.Header().Set(answerHeader, text)
	}
	w.WriteHeader(http.StatusNoContent)
}

// tell changes the lie.
func (l *liar) tell(next lie) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lie, l.probes, l.forwarded = next, 0, 0
}

// told returns how many probes were answered with the lie, and how many requests have come since it began.
func (l *liar) told() (probes, forwarded int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.probes, l.forwarded
}

// wall is the time since the Unix epoch.
func wall() time.Duration { return time.Duration(time.Now().UnixNano()) }
