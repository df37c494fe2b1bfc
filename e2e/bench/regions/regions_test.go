package regions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
	"github.com/warmgate/warmgate/internal/mooncake"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

func TestCells(t *testing.T) {
	trace, err := mooncake.Read("../../../internal/mooncake/testdata/sample.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	played := append(workloads(), sessionsOf(trace))
	all, err := cells(played, "", "", 1)
	if err != nil || len(all) != 2*len(played) {
		t.Fatalf("%d cells, %v", len(all), err)
	}
	room := engine().NumBlocks * engine().BlockSize
	for _, c := range all {
		scripts := c.scripts(1)
		if !reflect.DeepEqual(scripts, c.scripts(1)) || reflect.DeepEqual(scripts, c.scripts(2)) {
			t.Errorf("%s: the traffic does not follow from the seed", c.key())
		}
		sessions := map[string]bool{}
		for i, of := range scripts {
			if len(of) != c.users()[i]*c.perUser {
				t.Errorf("%s: %d scripts for %d users in %s", c.key(), len(of), c.users()[i], names[i])
			}
			for k := range of {
				if sessions[of[k].Session] {
					t.Fatalf("%s: two scripts are session %s", c.key(), of[k].Session)
				}
				sessions[of[k].Session] = true
				if long := of[k].Longest(); long > room {
					t.Errorf("%s: a conversation of %d tokens has no room in a server with %d", c.key(), long, room)
				}
			}
		}
		if text := c.describe(); !strings.Contains(text, c.name) || strings.Contains(text, "%!") {
			t.Errorf("%s is described as %q", c.key(), text)
		}
	}
	for _, w := range played {
		if first := float64(w.skewed[0]); first < 2.9*float64(w.skewed[1]) || w.skewed[1] != w.skewed[2] {
			t.Errorf("%s: %v is not three times as many users in one region", w.name, w.skewed)
		}
		if most, least := w.even[0], w.even[2]; most-least > 1 || w.skewed[0]+2*w.skewed[1] != most+w.even[1]+least {
			t.Errorf("%s: %v users are not as many as %v", w.name, w.even, w.skewed)
		}
	}
	some, err := cells(workloads(), "trees2", even, 0.5)
	if err != nil || len(some) != 1 || some[0].key() != "trees2@even" || some[0].users() != (users{12, 11, 11}) {
		t.Errorf("%+v, %v", some, err)
	}
	if few := times(users{120, 40, 1}, 0.01); few != (users{1, 1, 1}) {
		t.Errorf("hardly any users are %v", few)
	}
	for _, bad := range [][2]string{{"tree", ""}, {"", "odd"}} {
		if _, err := cells(workloads(), bad[0], bad[1], 1); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
}

// TestContenders checks that each is configured as its name says, and that no two share an index.
func TestContenders(t *testing.T) {
	secrets := map[string]bool{}
	for _, c := range contenders(42 * time.Millisecond) {
		if text := c.describe(); !strings.Contains(text, "servers: ") ||
			(c.central && !c.near) != strings.Contains(text, "one gateway, in us") ||
			strings.HasSuffix(c.name, "-router tuned") != strings.Contains(text, "--balance-abs-threshold 8") {
			t.Errorf("%s is described as %q", c.name, text)
		}
		n := c.servers.all()
		if strings.HasSuffix(c.name, nine) != (n == 9) || strings.HasSuffix(c.name, eight) != (n == 8) {
			t.Errorf("%s has %d servers", c.name, n)
		}
		if c.policy == nil || c.policy(1).Plugin == "" {
			continue
		}
		var config struct {
			Policy string `json:"lb_policy"`
			Config struct {
				Push   string `json:"push"`
				Prefix struct {
					Secret string
					Credit int
				} `json:"prefix"`
				Region struct {
					Name        string
					Peers       []struct{ Name, Cluster, RTT string }
					CachedFirst bool `json:"cached_first"`
				} `json:"regions"`
			} `json:"lb_config"`
		}
		if err := json.Unmarshal([]byte(c.policy(1).Plugin), &config); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		secret, policy := config.Config.Prefix.Secret, "prefix_cache"
		if c.name == byUser {
			policy = "consistent_hash"
		}
		if config.Policy != policy || config.Config.Push != "pending" || secrets[secret] {
			t.Errorf("%s: %+v", c.name, config)
		}
		secrets[secret] = true
		r := config.Config.Region
		if forwards := strings.HasPrefix(c.name, ownName); forwards != (r.Name == "eu") ||
			forwards != (len(r.Peers) == 2 && r.Peers[1].Name == "asia" && r.Peers[1].Cluster == peerCluster(2)) ||
			forwards && r.Peers[0].RTT != "42ms" {
			t.Errorf("%s: %+v", c.name, r)
		}
		if plain := c.name == ownName+defaults || c.name == byUser; plain != (config.Config.Prefix.Credit == 0) ||
			r.CachedFirst == (plain || r.Name == "") {
			t.Errorf("%s: %+v", c.name, config)
		}
	}
	if len(secrets) != 9 {
		t.Errorf("%d are Warmgate", len(secrets))
	}
}

// TestPlayedOn checks that contenders are played on the loads that they are for, and have their place in the table.
func TestPlayedOn(t *testing.T) {
	rep := &report{contenders: contenders(apart)}
	for _, c := range []struct {
		at   cell
		want int // fewer than all
	}{
		{cell{workloads()[0], skewed}, 0}, {cell{workloads()[0], even}, 3},
	} {
		if got := rep.playedOn(&c.at); len(got) != len(rep.contenders)-c.want {
			t.Errorf("%s: %q", c.at.key(), bench.Names(got, contender.title))
		}
	}
	var order []string
	for _, c := range rep.contenders {
		rep.Add("all", c.name, result{})
	}
	rep.Each(func(_, name string, _ []result) { order = append(order, name) })
	if !slices.Equal(order, bench.Names(rep.contenders, contender.title)) {
		t.Errorf("the table has %q", order)
	}
}

// TestEnough has users of one region run out of scripts.
func TestEnough(t *testing.T) {
	const until = time.Second
	var players [regions]scripted.Player
	for i := range players {
		players[i] = scripted.Player{Until: until, Begins: []time.Duration{0, until / 2, until}}
	}
	if err := enough(&players); err != nil {
		t.Error(err)
	}
	players[2].Begins[2] = until - 1
	if err := enough(&players); err == nil || !strings.Contains(err.Error(), names[2]) {
		t.Errorf("one has run out: %v", err)
	}
}

// TestForwarded counts what was forwarded between two readings, and the share of it.
func TestForwarded(t *testing.T) {
	prefix := key("us", "wasmcustom.warmgate_region_forwarded_total;region=eu;reason=prefix")
	before := counts{prefix: 3, "us>asia time": 4}
	after := counts{prefix: 10, "us>asia time": 4, "eu>us time": 1}
	if got := after.since(before).String(); got != "eu>us time 1, us>eu prefix 7" {
		t.Error(got)
	}
	var samples [regions][]loadgen.Sample
	for i := range 8 {
		s := loadgen.Sample{Due: time.Duration(i) * time.Second, Header: http.Header{}}
		if i >= 5 {
			s.Header.Set(compare.RegionHeader, "eu")
		}
		samples[i%2] = append(samples[i%2], s)
	}
	if got := away(samples, scripted.Window{From: 2 * time.Second, To: 6 * time.Second}); got != 0.25 {
		t.Errorf("%v of the measured ones were forwarded", got)
	}
}

// TestCutOff has requests that were cut off count with the time that they had waited by then.
func TestCutOff(t *testing.T) {
	const cut = 40 * time.Second
	const early = around / 2 // what clocks may differ by
	ok := loadgen.Sample{Status: 200, Due: 39 * time.Second, Total: time.Second - early}
	failed, refused, late := ok, ok, ok
	failed.Error, failed.Total = loadgen.ErrTimeout, time.Second/2
	refused.Error = "status_503"
	late.Error = loadgen.ErrTimeout
	begun := late
	begun.TTFT, late.Status = time.Second/2, 0
	long := late
	long.Due, long.Total = cut-tooLong-time.Second, tooLong+time.Second-early
	want := []loadgen.Sample{ok, failed, refused, ok, ok, long}
	want[3].Status, want[3].TTFT, want[4].TTFT = 0, late.Total, begun.TTFT
	want[5].Error, want[5].TTFT = "", long.Total
	got, n := cutOff([]loadgen.Sample{
		ok, failed, refused, late, begun, long, {Error: loadgen.ErrNotSent, Due: cut},
	}, cut)
	if !reflect.DeepEqual(got, want) || n != (unanswered{all: 2, long: 1}) {
		t.Errorf("%+v, %+v", n, got)
	}
}

func TestResult(t *testing.T) {
	st := &stage{fleet: vllmsim.NewFleet()}
	var samples [regions][]loadgen.Sample
	for i := range samples {
		for k := range 4 + i {
			samples[i] = append(samples[i], loadgen.Sample{
				Status: 200, Due: time.Duration(k) * time.Second, Total: time.Second / 2, TTFT: time.Second / 4,
				Tokens: 6, Endpoint: names[i],
			})
		}
	}
	samples[1][0].Error = loadgen.ErrReset
	r := resultOf(samples, scripted.Window{From: time.Second, To: 4 * time.Second}, st)
	if r.Summary.OK != 9 || r.Rate != 18 || r.by[0].Rate != 6 || r.Failed != 1 || r.uneven != 1 || ttftP50(&r) != 250 {
		t.Errorf("%+v", r)
	}
}

// TestRound plays a few conversations in three regions: by a gateway in each, with all servers and with fewer, and by
// one for all.
func TestRound(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Envoy")
	}
	ctx := context.Background()
	const rtt = 200 * time.Millisecond
	s := &settings{
		Settings: bench.Settings{Rounds: 1, Workers: 1, Lanes: 2}, rtt: rtt, warm: time.Second, span: 3 * time.Second,
	}
	server := vllmsim.Config{Tuning: vllmsim.NoLatency()}
	server.MaxNumSeqs, server.MaxQueued, server.NumBlocks = 4, -1, 4096
	var stages []*stage
	c := &cell{workloads()[0], even}
	c.even, c.perUser = users{2, 1, 1}, 999
	var list []contender
	for _, x := range contenders(rtt) {
		if !x.central && !x.asked || x.near || x.name == compare.LeastRequest.Name {
			x.on = ""
			list = append(list, x)
		}
	}
	rep := &report{settings: *s, cells: []cell{*c}, contenders: list}
	err := rep.play(ctx, func(ctx context.Context) (*stage, error) {
		st, err := newStage(ctx, s, server)
		stages = append(stages, st)
		return st, err
	})
	if err != nil || len(stages) != s.Lanes {
		t.Fatalf("%d stages, %v", len(stages), err)
	}
	for _, x := range list {
		r := rep.Of(c.key(), x.name)[0]
		if r.Failed > 0 || r.Summary.OK < 15 || r.Rate <= 0 || r.Cached <= 0.2 ||
			r.cpu.Gateways <= 0 || r.cpu.Own <= 0 || r.cpu.Machine > 1 ||
			len(r.Summary.Endpoints) > x.servers.all() || len(r.Summary.Endpoints) < regions {
			t.Errorf("%s: %+v", x.name, r)
		}
		home, away := r.by[0].Summary.TTFT, r.by[1].Summary.TTFT
		if x.central && !x.near && (away.P50 < rtt || home.P50 > away.P50) {
			t.Errorf("%s: p50 of TTFT is %v in %s and %v in %s", x.name, home.P50, names[0], away.P50, names[1])
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := wait.Until(ctx, 10*time.Millisecond, func() error {
		for _, at := range slices.Concat(stages[0].seen[servers:], stages[1].seen[servers:]) {
			if c, err := net.Dial("tcp", at); err == nil {
				return errors.Join(fmt.Errorf("the wire at %s is still there", at), c.Close())
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
