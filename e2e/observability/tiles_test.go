package observability

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// tileOf is the tile of the dashboard operations that shows what an alert is raised for.
var tileOf = map[string]string{
	"WarmgateAbsent": "Plugin", "WarmgateGone": "Plugin", "WarmgateConfigurationInvalid": "Plugin",
	"WarmgateConfigurationRefused": "Plugin", "WarmgateRulesRefused": "Plugin", "WarmgatePanic": "Plugin",
	"WarmgateStoreCorrected": "Plugin",
	"WarmgateRedisDown":      "Redis", "WarmgateRedisLogin": "Redis", "WarmgateRedisFallbacks": "Redis",
	"WarmgateScrapesFail": "Engine metrics", "WarmgateNoMetrics": "Engine metrics",
	"WarmgateMetricsLacking": "Engine metrics", "WarmgateModelListsFail": "Engine metrics",
	"WarmgateMetricsLost":      "Engine metrics",
	"WarmgateBalancedNatively": "Native balancing", "WarmgateNoServer": "Native balancing",
	"WarmgateServerUnhealthy": "Servers that fail", "WarmgateServerEjected": "Servers that fail",
	"WarmgateServerFails": "Servers that fail", "WarmgateAnswersFail": "Servers that fail",
	"WarmgateClusterFails": "Servers that fail", "WarmgateServerSlowToWrite": "Slow servers",
	"WarmgateServerSlowToStart": "Slow servers", "WarmgateServerSlowed": "Slow servers",
	"WarmgateModelNotEverywhere": "Models", "WarmgateCacheLost": "Caches", "WarmgateMatchError": "Caches",
	"WarmgateQueueMissized": "Queue", "WarmgateQueueLeft": "Queue", "WarmgateRefusals": "Queue",
	"WarmgateTenantTakesMost": "Tenants and budgets", "WarmgateBudgetUsedUp": "Tenants and budgets",
	"WarmgateTenantFlood":       "Tenants and budgets",
	"WarmgateRegionUnreachable": "Regions", "WarmgateRegionAdopted": "Regions",
}

// noTile has the alerts without one: why, and the panel that shows it.
var noTile = map[string]struct{ why, panel string }{
	"WarmgateRequestsStray": {"a filter is in the wrong place, from the first request on", "Retries and moves"},
	"WarmgateLabelsFolded":  {"no request suffers", "Counted under other"},
	"WarmgateRequestsFail":  {"it is the sum of what Servers that fail shows by server", "Answered well"},
	"WarmgateFirstTokenSlow": {
		"what is slow is for users to say, in a rule that dashboards do without", "Time to first token",
	},
	"WarmgateCacheExpectedInVain": {
		"it takes a quarter of an hour to tell from chance", "Cached share, reported and expected",
	},
	"WarmgateBackpressure": {"that requests wait is what a queue is for", "Backpressure"},
}

// TestEveryAlertHasATile checks that each alert has a tile, or a reason to have none and a panel instead.
func TestEveryAlertHasATile(t *testing.T) {
	titles := map[string]bool{}
	for _, p := range panels(t) {
		titles[p.Panel] = true
	}
	known := map[string]bool{}
	for _, a := range alerts(t) {
		known[a.Alert] = true
		tile, without := tileOf[a.Alert], noTile[a.Alert]
		if (tile == "") == (without.why == "") || !titles[tile+without.panel] {
			t.Errorf("%s: tile %q, without one %q, seen in the panel %q", a.Alert, tile, without.why, without.panel)
		}
	}
	for _, name := range append(slices.Collect(maps.Keys(tileOf)), slices.Collect(maps.Keys(noTile))...) {
		if !known[name] {
			t.Errorf("there is no alert %s", name)
		}
	}
}

// tile has the queries of one, each with the labels by which it names what is wrong.
type tile []panel

// tiles are the tiles by their titles.
func tiles(t *testing.T) map[string]tile {
	t.Helper()
	found := map[string]tile{}
	for _, p := range panels(t) {
		if p.When == "wrong" {
			found[p.Panel] = append(found[p.Panel], p)
		}
	}
	return found
}

// where is a query for whether there are lines that are so.
func (list tile) where(is string) string { return "clamp_max(" + list.count(is) + ", 1)" }

// count is a query for how many lines there are that are so.
func (list tile) count(is string) string {
	var b strings.Builder
	for i, p := range list {
		fmt.Fprintf(&b, "%s(%s) %s", []string{"", " or "}[min(i, 1)], p.Expr, is)
	}
	return "count(" + b.String() + ")"
}

// twice is a query that has a result where a line is there twice.
func (list tile) twice() string {
	var b strings.Builder
	for i, p := range list {
		or := []string{"", " or "}[min(i, 1)]
		fmt.Fprintf(&b, "%scount by (%s) (%s) > 1", or, strings.Join(p.Labels, ", "), p.Expr)
	}
	return b.String()
}

const red, amber = "== 0", "> 0"

// expect adds a query whose result is 1, or empty, after so many scrapes.
func expect(b *strings.Builder, expr string, scrapes float64, seconds int, has bool) {
	fmt.Fprintf(b, "  - expr: %s\n    eval_time: %ds\n", quoted(expr), int(scrapes*float64(seconds)))
	if has {
		b.WriteString("    exp_samples: [{labels: '{}', value: 1}]\n")
	}
}

// run of values, in promtool's notation: n and then the same, or growing ones.
var values = regexp.MustCompile(`^(-?\d+|_|stale)(?:\+(\d+))?(?:x(\d+))?$`)

// samples are the values of a series, one for each scrape.
func samples(t *testing.T, notation string) (list []string) {
	t.Helper()
	for _, word := range strings.Fields(notation) {
		m := values.FindStringSubmatch(word)
		if m == nil {
			t.Fatalf("%s has %s", notation, word)
		}
		number := func(s string) int { n, _ := strconv.Atoi(s); return n }
		if m[1] == "_" || m[1] == "stale" {
			list = append(list, slices.Repeat(m[1:2], max(1, number(m[3])))...)
			continue
		}
		for i := range number(m[3]) + 1 {
			list = append(list, strconv.Itoa(number(m[1])+i*number(m[2])))
		}
	}
	return list
}

// missed takes scrapes from a gateway. If they are tried, and fail, Prometheus notes for each series that it has ended.
func (s series) missed(t *testing.T, from, to int, tried bool) series {
	t.Helper()
	with := series{}
	for name, notation := range s {
		list := samples(t, notation)
		for i := from; i < min(to, len(list)); i++ {
			switch {
			case !tried:
				list[i] = "_"
			case strings.HasPrefix(name, "up{"):
				list[i] = "0"
			case list[i] != "_":
				list[i] = "stale"
			}
		}
		with[name] = strings.Join(list, " ")
	}
	return with
}

// ofTwo is what two gateways say that see the same.
func (s series) ofTwo() series {
	with := maps.Clone(s)
	for name, notation := range s {
		with[strings.ReplaceAll(name, gateway, `instance="b",job="gateway"`)] = notation
	}
	return with
}

// TestTiles sees what alerts are raised for in a tile: red while it is so, amber from two minutes after its end on, and
// gone after a quarter of an hour. Two gateways are scraped every 30 s, so that the hour of a fault is half of one: it
// ends in the 40th minute, but for what happens once, in the 35th. One scrape fails before that, and one during the
// fault, when tiles are looked at. What is measured by an hour ago takes its hour.
func TestTiles(t *testing.T) {
	all := tiles(t)
	var b strings.Builder
	for i := range faults {
		f := &faults[i]
		tile := all[tileOf[f.alert]]
		if tile == nil {
			continue
		}
		every, s := 30, f.series().ofTwo()
		if f.past {
			every = 60
		} else {
			s = s.missed(t, 10, 11, true).missed(t, 72, 73, true)
		}
		feed(t, &b, f.alert, fmt.Sprintf("%ds", every), s)
		expect(&b, tile.where(red), 18, every, false)
		expect(&b, tile.where(amber), 18, every, false)
		expect(&b, tile.where(red), 72, every, true)
		expect(&b, tile.twice(), 72, every, false)
		if f.past { // and all that it is not is left out
			expect(&b, fmt.Sprintf("%s / %d", tile.count(red), 1+len(f.with)), 72, every, true)
		}
		expect(&b, tile.where(red), 85, every, false)
		expect(&b, tile.where(amber), 85, every, true)
		expect(&b, tile.where(red), 115, every, false)
		expect(&b, tile.where(amber), 115, every, false)
	}
	run(t, b.String())
}

// gaps are times in which nothing is known of a gateway: a scrape fails, all do for a while, or Prometheus is down.
var gaps = map[string]struct {
	scrapes int
	tried   bool
}{"one": {1, true}, "some": {20, true}, "PrometheusIsDown": {40, false}}

// TestGaps sees nothing wrong with a calm gateway in gaps and afterwards, but that it could not be scraped: what it had
// counted before is not taken for news, nor is it for more than chance that a server gets nothing at first.
func TestGaps(t *testing.T) {
	all := tiles(t)
	plugin, others := all["Plugin"], tile{}
	for title, list := range all {
		if title != "Plugin" {
			others = append(others, list...)
		}
	}
	const every, begin = 30, 60
	var b strings.Builder
	for name, gap := range gaps {
		end := begin + gap.scrapes
		s := maps.Clone(calm)
		second := ofServer("warmgate_endpoint_requests_total", "2", `,outcome="ok"`)
		s[second] = fmt.Sprintf("0+300x%d %dx3 %d+300x60", end-1, end*300, (end+1)*300)
		feed(t, &b, name, "30s", s.missed(t, begin, end, gap.tried))
		for _, p := range panels(t) {
			if strings.HasPrefix(p.Expr, "0 * group(") && gap.scrapes == 1 { // all is well, throughout
				expect(&b, "-("+p.Expr+")", begin, every, true)
			}
		}
		for _, at := range []int{begin, begin + 5, end - 1, end, end + 1, end + 2, end + 5, end + 10} {
			expect(&b, others.where(">= 0"), float64(at), every, false)
			long := gap.scrapes > 1 && gap.tried
			expect(&b, plugin.where(red), float64(at), every, long && at >= begin+5 && at < end)
			expect(&b, plugin.where(amber), float64(at), every, long && at >= end)
		}
	}
	run(t, b.String())
}

// TestNoAlertsInGaps sees no alert on a calm gateway that is not scraped, and then is again, but for that.
func TestNoAlertsInGaps(t *testing.T) {
	var b strings.Builder
	for name, gap := range gaps {
		feed(t, &b, name, "1m", calm.missed(t, 60, 60+gap.scrapes, gap.tried))
		for _, minute := range []float64{60, 61, 75, 76, 80, 81, 85, 95, 100, 101, 105, 115} {
			expect(&b, `ALERTS{alertname!="WarmgateAbsent"}`, minute, 60, false)
		}
	}
	runWith(t, alerting(t, "1m"), b.String())
}
