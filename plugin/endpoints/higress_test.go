package endpoints

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// fakeHosts is a Higress that shows lists of hosts.
type fakeHosts struct {
	now     time.Duration
	hosts   []byte
	reads   int
	request uint32 // that calls act on
	read    []uint32
	lent    []byte // the latest answer
}

func (f *fakeHosts) Now() time.Duration { return f.now }

func (f *fakeHosts) UpstreamHosts() []byte {
	f.reads++
	f.read = append(f.read, f.request)
	for i := range f.lent {
		f.lent[i] = '?' // whoever has kept it reads what is not his
	}
	f.lent = slices.Clone(f.hosts)
	return f.lent
}

func (f *fakeHosts) AsRequest(context uint32, g func()) {
	before := f.request
	f.request = context
	g()
	f.request = before
}

// hostsOf returns a list as Higress writes it: the number of strings, their lengths, and the strings, each with a zero.
func hostsOf(strs ...string) []byte {
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(strs)/2))
	for _, s := range strs {
		out = binary.LittleEndian.AppendUint32(out, uint32(len(s)))
	}
	for _, s := range strs {
		out = append(append(out, s...), 0)
	}
	return out
}

const healthyHost = `{"health_status":"Healthy"}`

// A small list is read for every request; the view stays the same value while the endpoints do.
func TestHigressReadsSmallLists(t *testing.T) {
	f := &fakeHosts{now: time.Hour, hosts: hostsOf("10.0.0.1:80", healthyHost)}
	g, c := NewHigress(f), &config.Config{}
	first := g.View(f.now, "llm", c)
	if first == nil || len(first.Endpoints) != 1 || first.Endpoints[0].Addr != "10.0.0.1:80" {
		t.Fatalf("the view is %+v", first)
	}
	if g.View(f.now, "llm", c) != first || f.reads != 2 {
		t.Errorf("after %d reads the view has changed", f.reads)
	}
	f.hosts = hostsOf("10.0.0.1:80", healthyHost, "10.0.0.2:80", healthyHost)
	if next := g.View(f.now, "llm", c); next == first || len(next.Endpoints) != 2 {
		t.Errorf("a host that has come is not in %+v", next)
	}
	for _, none := range [][]byte{nil, {}, hostsOf(), hostsOf("/run/x.sock", healthyHost), []byte("garbage")} {
		if f.hosts = none; g.View(f.now, "llm", c) != nil {
			t.Errorf("%q is a view", none)
		}
	}
}

// Where requests wait for a first endpoint, a cluster without hosts is told from one that is not known. While it has
// none, the view stays the same value.
func TestHigressWithoutHosts(t *testing.T) {
	f := &fakeHosts{now: time.Hour, hosts: []byte{}}
	g, c := NewHigress(f), &config.Config{}
	c.Queue.FromZero, c.Queue.MaxWait = true, time.Second
	none := g.View(f.now, "llm", c)
	if none == nil || len(none.Endpoints) != 0 || none != g.View(f.now, "llm", c) {
		t.Fatalf("without a host: %v", none)
	}
	for _, unknown := range [][]byte{nil, hostsOf("/run/x.sock", healthyHost), []byte("garbage")} {
		if f.hosts = unknown; g.View(f.now, "llm", c) != nil {
			t.Errorf("%q is a view", unknown)
		}
	}
	f.hosts = hostsOf("10.0.0.1:80", healthyHost)
	if v := g.View(f.now, "llm", c); v == nil || len(v.Endpoints) != 1 {
		t.Errorf("the first host: %v", v)
	}
	if f.hosts = []byte{}; len(g.View(f.now, "llm", c).Endpoints) != 0 {
		t.Error("the last host has left, and is there")
	}
}

// A big list is read again when it is older than hostListAge, or by a scrape before that.
func TestHigressKeepsBigLists(t *testing.T) {
	big := strings.Replace(healthyHost, "{", `{"x":"`+strings.Repeat("x", bigHostList)+`",`, 1)
	f := &fakeHosts{now: time.Hour, hosts: hostsOf("10.0.0.1:80", big)}
	g := NewHigress(f)
	c := &config.Config{}
	view := func(after time.Duration) *lb.View { f.now += after; return g.View(f.now, "llm", c) }
	first := view(0)
	if view(hostListAge-1) != first || f.reads != 1 {
		t.Fatalf("%d reads within %v", f.reads, hostListAge)
	}
	if view(1) != first || f.reads != 2 {
		t.Errorf("%d reads after %v", f.reads, hostListAge)
	}
	c.Engines.Interval = time.Hour
	j := &Job{Cluster: "llm", Config: c, Request: 7, SampledAt: f.now}
	view(hostListAge / 2)
	if got := g.Scrape(f.now, j, nil); got != nil || f.reads != 3 || f.read[2] != 7 {
		t.Errorf("endpoints %v; read as %v", got, f.read)
	}
	if view(hostListAge-1) != first || f.reads != 3 {
		t.Errorf("%d reads, though a scrape has just read it", f.reads)
	}
}

// Pages of metrics are read as a request of the cluster, once in an interval.
func TestHigressScrapes(t *testing.T) {
	page := `{"health_status":"Healthy","metrics":"a 1"}`
	f := &fakeHosts{now: time.Hour, hosts: hostsOf("10.0.0.1:80", page, "10.0.0.2:80", healthyHost)}
	g := NewHigress(f)
	c := &config.Config{}
	c.Engines.Interval = time.Second
	got := map[string]string{}
	report := func(addr string, page []byte, result string) bool {
		got[addr] = result + " " + string(page)
		return true
	}
	j := &Job{Cluster: "llm", Config: c}
	if g.Scrape(f.now, j, report) != nil || f.reads != 0 {
		t.Error("read without a request")
	}
	j.Request = 9
	if n := len(g.Scrape(f.now, j, report)); n != 2 || f.read[0] != 9 || f.request != 0 {
		t.Errorf("%d endpoints, read as %v", n, f.read)
	}
	if got["10.0.0.1:80"] != "ok a 1" || got["10.0.0.2:80"] != "none " {
		t.Errorf("reported is %v", got)
	}
	if g.Scrape(f.now+c.Engines.Interval-1, j, report) != nil || f.reads != 1 {
		t.Error("read twice in an interval")
	}
	f.hosts = []byte("garbage")
	if g.Scrape(f.now+c.Engines.Interval, j, report) != nil || f.reads != 2 {
		t.Error("garbage has endpoints")
	}
}
