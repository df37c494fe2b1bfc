package discovery

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

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
	names := make([]string, 0, len(clusters))
	for name := range clusters {
		names = append(names, name)
	}
	slices.Sort(names)
	dst = append(dst, digestVersion)
	dst = binary.AppendUvarint(dst, uint64(len(names)))
	for _, name := range names {
		dst = appendText(dst, name)
		dst = binary.AppendUvarint(dst, uint64(len(clusters[name])))
		for _, e := range clusters[name] {
			dst = appendText(dst, e.Addr)
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(e.Weight))
			dst = append(dst, byte(e.State), e.Priority)
			dst = appendText(dst, e.Zone.Region)
			dst = appendText(dst, e.Zone.Name)
		}
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// ParseDigest reads what AppendDigest wrote. The error is ErrDigest; the digest is then unusable as a whole.
func ParseDigest(b []byte) (map[string][]lb.Endpoint, error) {
	d := digest{src: string(b)} // one copy, of which names and addresses are parts
	if d.byte() != digestVersion {
		return nil, ErrDigest
	}
	clusters := make(map[string][]lb.Endpoint)
	for n := d.count(2); n > 0 && !d.broken; n-- {
		name := d.text()
		endpoints := make([]lb.Endpoint, d.count(13))
		for i := range endpoints {
			endpoints[i] = d.endpoint()
		}
		if _, twice := clusters[name]; twice {
			d.broken = true
		}
		clusters[name] = endpoints
	}
	if d.broken || d.src != "" {
		return nil, ErrDigest
	}
	return clusters, nil
}

// digest is the rest to parse. Once it is broken, everything parsed is zero.
type digest struct {
	src    string
	broken bool
}

func (d *digest) endpoint() lb.Endpoint {
	e := lb.Endpoint{
		Addr: d.text(), Weight: d.float(), State: lb.State(d.byte()), Priority: d.byte(),
		Zone: lb.Zone{Region: d.text(), Name: d.text()},
	}
	if e.State > lb.Ejected || !(e.Weight >= 0 && e.Weight <= math.MaxFloat32) {
		d.broken = true
	}
	return e
}

// take removes n bytes and returns them.
func (d *digest) take(n uint64) string {
	if d.broken || n > uint64(len(d.src)) {
		d.broken, d.src = true, ""
		return ""
	}
	s := d.src[:n]
	d.src = d.src[n:]
	return s
}

func (d *digest) byte() byte {
	if s := d.take(1); s != "" {
		return s[0]
	}
	return 0
}

func (d *digest) text() string { return d.take(d.uvarint()) }

func (d *digest) float() float64 {
	s := d.take(8)
	if s == "" {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64([]byte(s)))
}

// count reads a number of items of at least size bytes each, so that a forged number allocates nothing.
func (d *digest) count(size uint64) uint64 {
	n := d.uvarint()
	if n > uint64(len(d.src))/size {
		d.broken = true
		return 0
	}
	return n
}

func (d *digest) uvarint() uint64 {
	var n uint64
	for shift := uint(0); shift < 64; shift += 7 {
		b := d.byte()
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
	d.broken = true
	return 0
}
