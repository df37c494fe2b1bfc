package discovery

import (
	"bytes"
	"errors"
	"math"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/internal/wire"
)

// ErrBreakers is returned for bytes that AppendBreakers has not written.
var ErrBreakers = errors.New("discovery: not circuit breakers of this version")

// Breaker is the circuit breaker of a cluster, for requests of default priority.
type Breaker struct {
	MaxRequests int64 // requests in flight at which the gateway fails further ones
	Active      int64 // requests of the gateway in flight there, of all priorities
}

const (
	maxActive = math.MaxUint32
	// unlimited is from which limit on a cluster has none.
	unlimited = math.MaxUint32
	// breakersVersion is the first byte of what AppendBreakers writes.
	breakersVersion = 1
)

// limitOf takes a line "name::value" about the limits of a cluster. 0 is a limit: such a cluster takes no request.
func limitOf(cluster string, s []byte, breakers map[string]Breaker) {
	v, ok := bytes.CutPrefix(s, []byte("max_requests::"))
	if !ok {
		return
	}
	if n, ok := decimal(v); ok && n < unlimited {
		breakers[cluster] = Breaker{MaxRequests: n}
	}
}

// AppendBreakers appends a compact form of the circuit breakers to dst: a version, their number, and for each the name
// of its cluster, the limit and the requests in flight. Equal breakers give equal bytes.
func AppendBreakers(dst []byte, breakers map[string]Breaker) []byte {
	names := order.Keys(breakers)
	w := wire.Writer(dst).Byte(breakersVersion).Uvarint(uint64(len(names)))
	for _, name := range names {
		b := breakers[name]
		w = w.Text(name).Uvarint(uint64(b.MaxRequests)).Uvarint(uint64(b.Active))
	}
	return w
}

// minBreaker is the minimum size of a circuit breaker in what AppendBreakers writes, in bytes.
const minBreaker = 3

// ParseBreakers reads what AppendBreakers wrote. The error is ErrBreakers; nothing of it is then usable.
func ParseBreakers(raw []byte) (map[string]Breaker, error) {
	r := wire.NewReader(string(raw)) // one copy, of which names are parts
	if r.Byte() != breakersVersion {
		return nil, ErrBreakers
	}
	n := r.Count(minBreaker)
	breakers := make(map[string]Breaker, n)
	for ; n > 0 && r.OK(); n-- {
		name, limit, active := r.Text(), r.Uvarint(), r.Uvarint()
		if _, twice := breakers[name]; twice || limit >= unlimited || active > maxActive {
			r.Fail()
		}
		breakers[name] = Breaker{int64(limit), int64(active)}
	}
	if !r.OK() || r.Len() > 0 {
		return nil, ErrBreakers
	}
	return breakers, nil
}
