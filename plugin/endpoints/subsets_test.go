package endpoints

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// dividedClusters is a page of clusters, one of which is observed under another name.
	dividedClusters = "llm::observability_name::llm\nllm::10.0.0.1:8000::rq_active::0\n" +
		"outbound|80||a.b:c::observability_name::outbound|80||a.b:c\nhidden::observability_name::shown\nllm"
	// dividedStats is a page of subsets of all of them but llm.
	dividedStats = "cluster.outbound|80||a.b_c.lb_subsets_active: 2\n" +
		"cluster.outbound|80||a.b_c.lb_subsets_created: 2\n" +
		"cluster.shown.lb_subsets_created: 1\ncluster.gone.lb_subsets_created: 1\n"
)

func TestClustersWithSubsets(t *testing.T) {
	for _, c := range []struct{ stats, want string }{
		{dividedStats, "outbound|80||a.b:c hidden"},
		{"cluster.llm.lb_subsets_single_host_per_subset_duplicate: 0\n", "llm"},
		{"", ""},
		{"cluster.lb_subsets_active: 1\ncluster\n\n.lb_subsets_\nlistener.llm.lb_subsets_active: 1", ""},
		{"<html>cluster.llm.lb_subset</html>", ""},
	} {
		if got := strings.Join(clustersWithSubsets([]byte(dividedClusters), []byte(c.stats)), " "); got != c.want {
			t.Errorf("%q: %q, want %q", c.stats, got, c.want)
		}
	}
}

// All VMs know the subsets that the leader has read, until the interface shows others: an answer without the page does
// not make a cluster one without subsets. The failure is logged, once as long as it is the same. An interface that
// refuses the page, as with configurations from before it was needed, is not requested again at once.
func TestSubsetsAreShared(t *testing.T) {
	_, vms := adminVMs(t, 2)
	leader, worker := vms[0], vms[1]
	now := time.Hour
	known := func() string {
		learn(t, leader, now, clustersPage("healthy"))
		worker.refresh(now)
		now += pollEvery
		names := worker.subsets.names
		maps.DeleteFunc(names, func(_ string, divided bool) bool { return !divided })
		return strings.Join(slices.Sorted(maps.Keys(names)), " ")
	}
	const both = "hidden outbound|80||a.b:c"
	for _, c := range []struct {
		status, page, want string
		due                time.Duration
		logged             string // a part of the log line, "" for none
	}{
		{"403", "", "", time.Minute, "refuses GET"},
		{"200", dividedStats, both, 50 * time.Millisecond, ""},
		{"503", "", both, 50 * time.Millisecond, `"503"`},
		{"503", "", both, 50 * time.Millisecond, ""},
		{"", "", both, 50 * time.Millisecond, `""`},
		{"200", "", "", 50 * time.Millisecond, ""},
		{"200", dividedStats, both, 50 * time.Millisecond, ""},
		{"403", "", both, time.Minute, "refuses GET"},
		{"403", "", both, time.Minute, ""},
	} {
		logged := leader.subsets.received(now, time.Millisecond, []byte(dividedClusters), []byte(c.page), c.status)
		if got := known(); got != c.want || leader.subsets.next-now != c.due-pollEvery {
			t.Errorf("%s %q: %q are known to have subsets, want %q; requested again after %v, want %v",
				c.status, c.page, got, c.want, leader.subsets.next-now+pollEvery, c.due)
		}
		if c.logged == "" && logged != "" || !strings.Contains(logged, c.logged) {
			t.Errorf("%s: logged %q, want %q", c.status, logged, c.logged)
		}
	}
}
