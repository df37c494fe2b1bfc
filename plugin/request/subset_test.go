package request

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
)

// hinted is a request of which only its hint is read.
type hinted struct {
	host.GatewayStream
	headers  [][2]string
	property []byte
}

func (h *hinted) RequestHeaders() [][2]string { return h.headers }
func (h *hinted) SubsetHint() []byte          { return h.property }

// listOf is a property that is a list, as gateways hand it over.
func listOf(items ...string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(items)))
	for _, item := range items {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(item)))
		b = binary.LittleEndian.AppendUint32(b, 0)
	}
	for _, item := range items {
		b = append(b, item+"\x00\x00"...)
	}
	return b
}

func TestSubset(t *testing.T) {
	const a, b, v6 = "10.0.0.1:8000", "10.0.0.2:8000", "[2001:db8::1]:8000"
	many := strings.Repeat(a+",", maxSubset) + b
	header := func(values ...string) *hinted {
		h := &hinted{property: listOf(b)}
		for _, value := range values {
			h.headers = append(h.headers, [2]string{subsetHeader, value})
		}
		return h
	}
	property := func(property []byte) *hinted {
		return &hinted{headers: [][2]string{{subsetHeader, b}}, property: property}
	}
	for name, c := range map[string]struct {
		from string
		of   *hinted
		want []string // nil: it is not limited
	}{
		"not configured":     {config.SubsetNone, header(a), nil},
		"no header":          {config.SubsetHeader, header(), nil},
		"a header":           {config.SubsetHeader, header(a + ", " + v6 + ",,\t" + b), []string{a, v6, b}},
		"several":            {config.SubsetHeader, header(a, b), []string{a, b}},
		"an empty header":    {config.SubsetHeader, header(" "), []string{}},
		"too many":           {config.SubsetHeader, header(many), slices.Repeat([]string{a}, maxSubset)},
		"no property":        {config.SubsetMetadata, property(nil), nil},
		"an empty text":      {config.SubsetMetadata, property([]byte{}), []string{}},
		"a text":             {config.SubsetMetadata, property([]byte(a + "," + b)), []string{a, b}},
		"a list":             {config.SubsetMetadata, property(listOf(a, v6)), []string{a, v6}},
		"an empty list":      {config.SubsetMetadata, property(listOf()), []string{}},
		"an item of nothing": {config.SubsetMetadata, property(listOf("", a)), []string{a}},
		"a list that is cut": {config.SubsetMetadata, property(listOf(a, b)[:40]), []string{a}},
		"a list that is long": {
			config.SubsetMetadata, property(listOf(strings.Split(many, ",")...)), slices.Repeat([]string{a}, maxSubset),
		},
	} {
		var want []uint64
		if c.want != nil {
			want = []uint64{}
		}
		for _, addr := range c.want {
			want = append(want, lb.EndpointHash(addr))
		}
		slices.Sort(want)
		s := Subject{Request: &Request{Gateway: c.of}, Config: &config.Config{SubsetHint: c.from}}
		if got := s.Subset(); !slices.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s: %d endpoints %x, want %d", name, len(got), got[:min(4, len(got))], len(want))
		}
	}
}

func FuzzListedEndpoints(f *testing.F) {
	f.Add(listOf("10.0.0.1:8000", "10.0.0.2:8000"))
	f.Add([]byte("10.0.0.1:8000"))
	f.Add([]byte("\xff\xff\xff\xff\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, property []byte) {
		if got := listedEndpoints(property); len(got) > maxSubset || got == nil && len(property) > 0 {
			t.Errorf("%d endpoints of %d bytes", len(got), len(property))
		}
	})
}
