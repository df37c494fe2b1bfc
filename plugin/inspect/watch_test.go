package inspect

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/fieldtest"
	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/lb/health/healthtest"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/process/processtest"
)

// VMs find places of their own while somebody watches, and take those of VMs that are gone.
func TestPlacesOfVMs(t *testing.T) {
	kv := &processtest.KV{Cells: map[string]processtest.Cell{}}
	if err := process.Prepare(kv); err != nil {
		t.Fatal(err)
	}
	vms := [3]watch{}
	for i := range vms {
		vms[i] = watch{kv: kv, owner: uint64(i + 1), slot: -1}
	}
	now := time.Hour
	tick := func(list ...*watch) {
		for _, w := range list {
			w.tick(now)
		}
	}
	told := func() (all string) {
		vms[0].each(now, "told/", func(mine bool, rest []byte) {
			if all += string(rest); mine {
				all += "!"
			}
		})
		return all
	}
	tick(&vms[0], &vms[1])
	if vms[0].isOn(now) || vms[0].slot >= 0 {
		t.Error("VMs tell what they know although nobody watches")
	}
	vms[1].begin(now)
	tick(&vms[0], &vms[1])
	vms[0].tell("told/", []byte("a"))
	vms[1].tell("told/", []byte("b"))
	if !vms[0].isOn(now) || told() != "a!b" {
		t.Errorf("two VMs tell %q", told())
	}
	for range 40 { // the second one is gone
		now += time.Second
		vms[0].begin(now)
		tick(&vms[0])
	}
	if told() != "a!" {
		t.Errorf("with one that is gone they tell %q", told())
	}
	tick(&vms[2])
	vms[2].tell("told/", []byte("c"))
	if vms[2].slot != 1 || told() != "a!c" {
		t.Errorf("a new one has place %d, they tell %q", vms[2].slot, told())
	}
	now += watchedFor
	if tick(&vms[0]); vms[0].isOn(now) {
		t.Error("somebody still watches")
	}
}

// The values in shared memory are byte for byte as documented: VMs with another version of the plugin read them.
func TestFormatsOfWatch(t *testing.T) {
	kv := &processtest.KV{Cells: map[string]processtest.Cell{}}
	if err := process.Prepare(kv); err != nil {
		t.Fatal(err)
	}
	w := watch{kv: kv, owner: 0x1112131415161718, slot: -1}
	w.begin(0x0102030405060708)
	w.tick(0x0102030405060709)
	want := "\x08\x07\x06\x05\x04\x03\x02\x01" + "\x18\x17\x16\x15\x14\x13\x12\x11" + "\x09\x07\x06\x05\x04\x03\x02\x01"
	if got, _, _ := kv.Get(process.KeyWatch); string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	parts := []*config.Config{{}, {}}
	f := facts{name: "a", config: parts[1], usedAt: 2, leftOut: 3, endpoints: []state.Endpoint{
		{Addr: "b", Zone: "z", Health: "h", Weight: 1, Cap: 4, TokenCap: 5, PushLimit: 6},
	}}
	eight := func(first string) string { return first + strings.Repeat("\x00", 7) }
	want = "\x01a\x01" + eight("\x02") + "\x03\x01" + "\x01b\x01z\x01h" + "\x00\x00\x00\x00\x00\x00\xf0\x3f" +
		eight("\x04") + eight("\x05") + eight("\x06")
	if got := packFacts([]facts{f}, parts); string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What a VM tells of a cluster is read as the same, but for what all count together.
func TestToldFacts(t *testing.T) {
	var e state.Endpoint
	fieldtest.Fill(t, reflect.ValueOf(&e).Elem())
	e.Requests, e.Tokens, e.Engine = 0, 0, nil
	parts := []*config.Config{{}, {}}
	list := []facts{
		{name: "a", config: parts[1], usedAt: 2, leftOut: 3, endpoints: []state.Endpoint{e, e}},
		{name: "b", config: parts[0]},
	}
	told := packFacts(list, parts)
	if got := readFacts(told, parts); !reflect.DeepEqual(got, list) {
		t.Errorf("got %+v, want %+v", got, list)
	}
	if got := readFacts(told, parts[:1]); len(got) != 1 || got[0].name != "b" {
		t.Errorf("without the part of one: %+v", got)
	}
	for i := range told { // cut short by another version
		readFacts(told[:i], parts)
	}
}

// However many clusters and endpoints there are, what a VM tells of them is bounded, and the others are counted.
func TestFactsAreBounded(t *testing.T) {
	now, c := time.Hour, &config.Config{Policy: "global_least_request"}
	_, vms := newVMs(t, 1)
	in := vms[0]
	in.clusters = clusters.Known{}
	for i := range maxClusters + 3 {
		cl, _, err := in.clusters.Get(now, "c"+strconv.Itoa(100+i), c)
		if err != nil {
			t.Fatal(err)
		}
		cl.Views[1] = healthtest.View(maxEndpoints + 2)
	}
	list, leftOut := in.allFacts(now)
	if len(list) != maxClusters || leftOut != 3 {
		t.Errorf("%d clusters are shown, %d left out", len(list), leftOut)
	}
	endpoints := 0
	for _, f := range in.ownFacts(now) {
		endpoints += len(f.endpoints)
	}
	if endpoints != maxClusters*maxEndpoints || list[maxClusters-1].leftOut != 2 {
		t.Errorf("%d endpoints are told of, %d are left out of a cluster", endpoints, list[maxClusters-1].leftOut)
	}
}

// The endpoints of a cluster are shown as the gateway knows them by now, but where a configuration lists them as there.
func TestLatestEndpoints(t *testing.T) {
	listed := []config.StaticEndpoint{{Addr: "10.0.0.1:80", Weight: 1}}
	for want, list := range map[int][]config.StaticEndpoint{5: nil, 2: listed} {
		g, vms := newVMs(t, 1)
		in := vms[0]
		in.clusters, g.known = clusters.Known{}, healthtest.View(5)
		c := &config.Config{Policy: "global_least_request", EnvoyCfg: config.EnvoySource{Endpoints: list}}
		cl, _, err := in.clusters.Get(g.now, "a", c)
		if err != nil {
			t.Fatal(err)
		}
		earlier := healthtest.View(2)
		cl.Views[earlier.ListID] = earlier
		if n := len(in.ownFacts(g.now)[0].endpoints); n != want {
			t.Errorf("%d endpoints are shown, want %d", n, want)
		}
	}
}
