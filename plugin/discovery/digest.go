package discovery

import (
	"errors"
	"math"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// ErrDigest is returned for bytes that are not a digest of this version.
var ErrDigest = errors.New("discovery: not a digest of this version")

// digestVersion is the first byte of a digest. Another version of the plugin may read what this one wrote.
const digestVersion = 2

// AppendDigest appends a compact form of the clusters to dst. Equal clusters give equal bytes.
//
// The form is: version, number of clusters, and for each its name, the number of endpoints, and for each of these its
// address, its weight as a float64, its state and its priority as a byte each, and its region and zone. Numbers and
// lengths are unsigned varints, a text follows its length, the weight is little-endian.
func AppendDigest(dst []byte, clusters map[string][]lb.Endpoint) []byte {
	names := order.Keys(clusters)
	w := wire.Writer(dst).Byte(digestVersion).Uvarint(uint64(len(names)))
	for _, name := range names {
		w = w.Text(name).Uvarint(uint64(len(clusters[name])))
		for _, e := range clusters[name] {
			w = w.Text(e.Addr).Float64(e.Weight).Byte(byte(e.State)).Byte(e.Priority).
				Text(e.Zone.Region).Text(e.Zone.Name)
		}
	}
	return w
}

// The minimum sizes of a cluster and of an endpoint in a digest, in bytes.
const (
	minCluster  = 2
	minEndpoint = 13
)

// ParseDigest reads what AppendDigest wrote. The error is ErrDigest; the digest is then unusable as a whole.
func ParseDigest(b []byte) (map[string][]lb.Endpoint, error) {
	r := wire.NewReader(string(b)) // one copy, of which names and addresses are parts
	if r.Byte() != digestVersion {
		return nil, ErrDigest
	}
	clusters := make(map[string][]lb.Endpoint)
	for n := r.Count(minCluster); n > 0 && r.OK(); n-- {
		name := r.Text()
		endpoints := make([]lb.Endpoint, r.Count(minEndpoint))
		for i := range endpoints {
			endpoints[i] = readEndpoint(&r)
		}
		if _, twice := clusters[name]; twice {
			r.Fail()
		}
		clusters[name] = endpoints
	}
	if !r.OK() || r.Len() > 0 {
		return nil, ErrDigest
	}
	return clusters, nil
}

func readEndpoint(r *wire.Reader[string]) lb.Endpoint {
	e := lb.Endpoint{
		Addr: r.Text(), Weight: r.Float64(), State: lb.State(r.Byte()), Priority: r.Byte(),
		Zone: lb.Zone{Region: r.Text(), Name: r.Text()},
	}
	if e.State > lb.Ejected || !(e.Weight >= 0 && e.Weight <= math.MaxFloat32) {
		r.Fail()
	}
	return e
}
