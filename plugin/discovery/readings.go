package discovery

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// ErrReadings is returned for bytes that are no readings of this version.
var ErrReadings = errors.New("discovery: not readings of this version")

// readingsVersion is the first byte of readings in shared memory.
const readingsVersion = 1

// Readings are the samples of the engines of one cluster, by address of the endpoint, and the names of the metrics that
// were looked for besides the known ones.
type Readings struct {
	Targets []string
	By      map[string]lb.EngineSample
}

// Append appends a compact form of r to dst: the version, the number of targets and their names, and for each endpoint
//
//   - its address
//   - the times At, ScrapedAt and FreshAt, as three int64
//   - a byte that is 1 if the load in flight is known
//   - the digest of the page, as a uint64
//   - requests and tokens in flight, as two int64
//   - what package metrics appends for the metrics
//
// Texts follow their length, an unsigned varint like the number of targets; all other numbers are little-endian.
func (r *Readings) Append(dst []byte) []byte {
	dst = append(dst, readingsVersion)
	dst = binary.AppendUvarint(dst, uint64(len(r.Targets)))
	for _, name := range r.Targets {
		dst = appendText(dst, name)
	}
	for addr, e := range r.By {
		dst = appendText(dst, addr)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(e.At))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(e.ScrapedAt))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(e.FreshAt))
		counted := byte(0)
		if e.Counted {
			counted = 1
		}
		dst = append(dst, counted)
		dst = binary.LittleEndian.AppendUint64(dst, e.Page)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(e.Inflight.Requests))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(e.Inflight.Tokens))
		dst = e.Snapshot.Append(dst)
	}
	return dst
}

// ParseReadings reads what Append wrote. The error is ErrReadings; the readings are then unusable as a whole.
func ParseReadings(b []byte) (Readings, error) {
	r := Readings{By: map[string]lb.EngineSample{}}
	d := digest{src: string(b)}
	if d.byte() != readingsVersion {
		return Readings{}, ErrReadings
	}
	for n := d.count(1); n > 0 && !d.broken; n-- {
		r.Targets = append(r.Targets, d.text())
	}
	for d.src != "" && !d.broken {
		addr := d.text()
		e := lb.EngineSample{
			At: time.Duration(d.int64()), ScrapedAt: time.Duration(d.int64()), FreshAt: time.Duration(d.int64()),
			Counted: d.byte() == 1,
		}
		e.Page = uint64(d.int64())
		e.Inflight = lb.Load{Requests: d.int64(), Tokens: d.int64()}
		rest, ok := e.Snapshot.Read(b[len(b)-len(d.src):])
		if !ok || addr == "" {
			d.broken = true
			break
		}
		d.src = d.src[len(d.src)-len(rest):] // a copy of b
		r.By[addr] = e
	}
	if d.broken {
		return Readings{}, ErrReadings
	}
	return r, nil
}

func (d *digest) int64() int64 {
	s := d.take(8)
	if s == "" {
		return 0
	}
	return int64(binary.LittleEndian.Uint64([]byte(s)))
}
