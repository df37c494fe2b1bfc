package region

import (
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"hash"
	"time"

	"golang.org/x/crypto/blake2s"

	"github.com/warmgate/warmgate/internal/wire"
)

// Errors of a text that was not taken. None of them is for whoever sent it: a stranger is told nothing.
var (
	ErrMalformed = errors.New("region: not a text of this version and kind")
	ErrForged    = errors.New("region: not signed with the secret")
	ErrElsewhere = errors.New("region: not between these two regions")
	ErrStale     = errors.New("region: the clocks are too far apart, or the text is old")
	ErrReplayed  = errors.New("region: used before")
	ErrAbsurd    = errors.New("region: a number is out of range")
)

const (
	// MaxName is the longest name of a region, in bytes.
	MaxName = 63
	// MaxText is the longest text that is read, in bytes.
	MaxText = 1024
	// MaxSkew is how far the clocks of two regions may be apart, with the time that a text is under way.
	MaxSkew = 10 * time.Second
)

// kind is what a text is: one kind cannot pass for another.
type kind byte

const (
	probeKind  kind = 'p'
	answerKind kind = 'a'
	hopKind    kind = 'h'
)

// version of all texts. Gateways of another version do not understand each other, and count as gone.
const version = '1'

// Key signs what the gateways of regions tell each other, with a secret that all of them have, and verifies it.
//
// A text is fit for a header: the version, the kind, and then, in URL-safe base64 without padding, the values and 32
// bytes of keyed BLAKE2s (RFC 7693) over everything before. No text can be changed into another that is taken as well.
type Key struct {
	mac  hash.Hash
	sum  [sumSize]byte
	body []byte // reused: the values of the latest text, and its signature
	text []byte // reused: the latest text that was made
}

// encoding refuses what no encoder would have written, but for ends of lines.
var encoding = base64.RawURLEncoding.Strict()

// NewKey returns the key of a secret, which should have 16 random bytes or more.
func NewKey(secret string) *Key {
	key := blake2s.Sum256([]byte(secret)) // BLAKE2s takes keys of at most 32 bytes
	mac, err := blake2s.New256(key[:])
	if err != nil {
		panic("region: " + err.Error()) // of a key that is too long, which this is not
	}
	return &Key{mac: mac}
}

// sign returns the signature of the values of a text, and of the subject, which is signed but not in the text. It is
// overwritten by the next.
func (k *Key) sign(what kind, values []byte, subject string) []byte {
	k.mac.Reset()
	head := [...]byte{version, byte(what), byte(len(subject) >> 8), byte(len(subject))}
	k.mac.Write(head[:])
	k.mac.Write([]byte(subject))
	k.mac.Write(values)
	return k.mac.Sum(k.sum[:0])
}

// sumSize is the size of a signature, in bytes.
const sumSize = blake2s.Size

// values returns where the values of a text are written.
func (k *Key) values() wire.Writer { return k.body[:0] }

// seal returns the text with the values.
func (k *Key) seal(what kind, values wire.Writer, subject string) string {
	k.body = append(values, k.sign(what, values, subject)...)
	k.text = encoding.AppendEncode(append(k.text[:0], version, byte(what)), k.body)
	return string(k.text)
}

// open returns the values of a text. They are overwritten by the next.
func (k *Key) open(what kind, text, subject string) ([]byte, error) {
	if len(text) < 2 || len(text) > MaxText || text[0] != version || text[1] != byte(what) {
		return nil, ErrMalformed
	}
	body, err := encoding.AppendDecode(k.body[:0], []byte(text[2:]))
	k.body = body
	if err != nil || len(body) < sumSize || encoding.EncodedLen(len(body)) != len(text)-2 {
		return nil, ErrMalformed
	}
	values, sum := body[:len(body)-sumSize], body[len(body)-sumSize:]
	if subtle.ConstantTimeCompare(sum, k.sign(what, values, subject)) == 0 {
		return nil, ErrForged
	}
	return values, nil
}

// Route is which region tells which, and when.
type Route struct {
	From, To string
	At       time.Duration // since the Unix epoch, by the clock of the one that tells
	Nonce    uint64        // of the one that asks: 32 bits that are its own, then 32 that count; 0 for a hop
}

// append appends the route. Names that are too long are for the configuration to refuse.
func (r *Route) append(w wire.Writer) wire.Writer {
	return w.Text(r.From).Text(r.To).Uint64(uint64(r.At.Milliseconds())).Uint64(r.Nonce)
}

// readRoute reads a route to this region from another one, as it was at a time since the Unix epoch. With ErrElsewhere
// and ErrStale the route is what was read.
func readRoute(r *wire.Reader[[]byte], self string, wall time.Duration) (Route, error) {
	from, to := r.Text(), r.Text()
	ms, nonce := r.Uint64(), r.Uint64()
	if !r.OK() || len(from) == 0 || len(from) > MaxName || len(to) > MaxName {
		return Route{}, ErrMalformed
	}
	route := Route{string(from), string(to), time.Duration(ms) * time.Millisecond, nonce}
	switch {
	case route.To != self || route.From == self:
		return route, ErrElsewhere
	case !near(ms, wall):
		return route, ErrStale
	}
	return route, nil
}

// readWhole reads a route that is all there is.
func readWhole(values []byte, self string, wall time.Duration) (Route, error) {
	r := wire.NewReader(values)
	at, err := readRoute(&r, self, wall)
	if r.Len() > 0 {
		return Route{}, ErrMalformed
	}
	return at, err
}

// near reports whether a time in ms is within [MaxSkew] of wall.
func near(ms uint64, wall time.Duration) bool {
	now, skew := uint64(max(0, wall).Milliseconds()), uint64(MaxSkew.Milliseconds())
	return ms <= now+skew && now <= ms+skew
}
