package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/plugin/regions"
	"github.com/warmgate/warmgate/plugin/stats"
)

const newSecret = "the next secret of both regions"

// withSecrets returns a configuration with other secrets, of which the previous one may be "".
func withSecrets(config, secret, previous string) string {
	text := `"secret":"` + secret + `"`
	if previous != "" {
		text += `,"previous_secret":"` + previous + `"`
	}
	return strings.Replace(config, `"secret":"`+regionSecret+`"`, text, 1)
}

// A secret is replaced in one region after the other, forth and back, and all the time each hears the other, takes what
// the other forwards for that, and adopts nothing.
func TestSecretIsReplaced(t *testing.T) {
	const members = `,"gone":"500ms"`
	configs := map[*fakeDriver]string{}
	us, eu := newRegions(t, 1, 1, members, func(d *fakeDriver, config string) string {
		configs[d] = config
		return config
	})
	toEU, toUS := ";region=eu", ";region=us"
	served := eu.Counter(stats.ServedFor + toUS)
	steps := []struct {
		of               *fakeDriver
		secret, previous string
	}{
		{us, newSecret, regionSecret},
		{us, regionSecret, ""}, // changed one's mind
		{eu, newSecret, regionSecret},
		{us, newSecret, regionSecret},
		{us, newSecret, ""},
		{eu, newSecret, ""},
	}
	for i, step := range steps {
		if !step.of.configure(withSecrets(configs[step.of], step.secret, step.previous)) {
			t.Fatal("refused")
		}
		for range 20 {
			pass(100*time.Millisecond, us, eu)
			if us.Gauge(stats.PeerOpen+toEU) != 1 || eu.Gauge(stats.PeerOpen+toUS) != 1 {
				t.Fatalf("step %d: the regions do not hear each other", i)
			}
		}
		us.forwardsTo(eu)
		if served++; eu.Counter(stats.ServedFor+toUS) != served {
			t.Errorf("step %d: what was forwarded is taken for a client's", i)
		}
	}
	for _, d := range []*fakeDriver{us, eu} {
		for _, stat := range []string{stats.ForgedHops, stats.ForgedProbes, stats.ProbeErrors} {
			if n := d.Counter(stat); n != 0 {
				t.Errorf("%s: %d", stat, n)
			}
		}
		d.drained()
	}
}

// forwardsTo has the gateway of the region us forward a request to that of eu, which takes its hop off.
func (d *fakeDriver) forwardsTo(eu *fakeDriver) {
	d.t.Helper()
	busy, away, r := d.client(0, regionChat), d.client(1, regionChat), regionChat
	if away.cluster != "to-eu" {
		d.t.Fatalf("sent to %q", away.cluster)
	}
	for _, name := range regions.HopHeaders {
		if hop := away.header(name); hop != "" {
			r.Headers = append(r.Headers, [2]string{name, hop})
		}
	}
	there := eu.client(0, r)
	for _, name := range regions.HopHeaders {
		if there.header(name) != "" {
			d.t.Errorf("%s is passed on", name)
		}
	}
	for _, c := range []*fakeStream{busy, away, there} {
		c.Finish()
	}
}

// Servers stay adopted while the secret is replaced.
func TestSecretIsReplacedWhileAdopted(t *testing.T) {
	var config string
	us, eu := newRegions(t, 1, 1, "", func(d *fakeDriver, c string) string {
		c = adopting(1)(d, c)
		if config == "" {
			config = c
		}
		return c
	})
	us.peers = nil
	pass(3*time.Second, us, eu)
	us.wantAdopted(1)
	home := us.client(0, regionChat)
	for _, previous := range []string{regionSecret, ""} {
		if !us.configure(withSecrets(config, newSecret, previous)) {
			t.Fatal("refused")
		}
		us.advance(100 * time.Millisecond)
		c := us.client(1, regionChat)
		c.wantAt(true)
		c.Finish()
	}
	us.wantAdopted(1)
	home.Finish()
}

// No server ever gets a probe: not where there are no regions any more, not where the plugin is off, and not where its
// configuration is refused.
func TestServersGetNoProbes(t *testing.T) {
	for name, config := range map[string]string{
		"without regions": queueConfig(""),
		"off":             `{"enabled":false}`,
		"off for some":    strings.Replace(regionConfig("us", "eu", ""), `{`, `{"enabled":false,`, 1),
		"refused":         `{"lb_policy":"none"}`,
	} {
		us, _ := startRegions(t, 1, 1, "")
		us.peers = nil
		us.sites[fakeCluster] = us.sites["llm"]
		if us.configure(config) == (name == "refused") {
			t.Fatalf("%s: %s", name, config)
		}
		probe := region.NewKey(regionSecret).SignProbe("eu", "us", fakeEpoch+us.now, 1)
		for _, header := range regions.ProbeHeaders {
			c := us.client(0, streamtest.Request{
				Method: "GET", Path: regions.ProbePath, Headers: [][2]string{{header, probe}},
			})
			answered := name == "refused" && header == regions.ProbeHeaders[0] // the last good form is in force
			if status := c.Result().Status; c.Upstream() >= 0 || status != 404 && !answered {
				t.Errorf("%s: %d, sent to %q", name, status, c.cluster)
			}
		}
		plain := us.client(0, streamtest.Request{Method: "GET", Path: regions.ProbePath})
		if plain.Upstream() < 0 {
			t.Errorf("%s: without a text: %+v", name, plain.Result())
		}
		plain.Finish()
		us.drained()
	}
}
