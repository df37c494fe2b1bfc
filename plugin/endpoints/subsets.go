package endpoints

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/process"
)

const (
	// subsetsPage shows the statistics of Envoy's subset load balancer that have ever been written: for a cluster that
	// is divided into subsets there are some from its start on, for others none.
	subsetsPage = "/stats?usedonly&filter=lb_subsets_"
	// subsetsShare bounds the cost of the page: Envoy walks through all its statistics for it, and it is not requested
	// again before this many times as long has passed.
	subsetsShare = 50
	// subsetsRefused is when the page is requested again where the way to the admin interface refuses it.
	subsetsRefused = time.Minute
	// assumed ends the log lines for a missing page.
	assumed = ": clusters are assumed to have no subsets unless it has shown them before"
)

// subsets are the clusters in which a route may be for a part of the endpoints only, by its metadata_match. What a
// route matches is in no property, and steering by the plugin ignores the gateway's own choice of the part.
type subsets struct {
	kv      lb.KV
	next    time.Duration // when the page is due
	problem string        // with the last answer, "" for none
	last    []byte        // what was published in this VM's present leadership
	version uint32        // of what names are from
	names   map[string]bool
}

// received takes the page of subsets, together with the page of clusters; took is how long the answer took. It returns
// a line for the log, "" for none. An answer without the page changes nothing: to treat a cluster as undivided sends
// requests to endpoints that their routes exclude.
func (d *subsets) received(now, took time.Duration, clusters, page []byte, status string) (problem string) {
	d.next = now + subsetsShare*took
	switch status {
	case "200":
		d.publish(clustersWithSubsets(clusters, page))
	case refused:
		d.next = now + subsetsRefused
		problem = "the way to the admin interface refuses GET " + subsetsPage + assumed
	default:
		problem = "GET " + subsetsPage + " of the admin interface was answered with " + strconv.Quote(status) + assumed
	}
	if problem == d.problem {
		return ""
	}
	d.problem = problem
	return problem
}

// publish writes the names for all VMs of the process. If that fails, it is done with the next answer.
func (d *subsets) publish(names []string) {
	text := []byte("\n" + strings.Join(names, "\n"))
	if !bytes.Equal(text, d.last) && d.kv.Set(process.KeySubsets, text, 0) == nil {
		d.last = text
	}
}

// refresh reads what the leader has published.
func (d *subsets) refresh() {
	text, version, err := d.kv.Get(process.KeySubsets)
	if err != nil || version == d.version {
		return
	}
	d.version = version
	d.names = map[string]bool{}
	for _, name := range strings.Split(string(text), "\n") {
		d.names[name] = name != ""
	}
}

// clustersWithSubsets returns the names of the clusters that have statistics of subsets. Statistics have the name under
// which a cluster is observed, which the page of clusters shows beside its own, with other characters for some.
func clustersWithSubsets(clusters, stats []byte) (names []string) {
	const prefix, middle, beside = "cluster.", ".lb_subsets_", "::observability_name::"
	observed := map[string]bool{}
	for _, line := range bytes.Split(stats, []byte("\n")) {
		if end := bytes.LastIndex(line, []byte(middle)); end >= len(prefix) && bytes.HasPrefix(line, []byte(prefix)) {
			observed[string(line[len(prefix):end])] = true
		}
	}
	for len(observed) > 0 && len(clusters) > 0 {
		line, rest, _ := bytes.Cut(clusters, []byte("\n"))
		clusters = rest
		name, shown, ok := bytes.Cut(line, []byte(beside))
		if ok && observed[inStats(string(shown))] {
			names = append(names, string(name))
		}
	}
	return names
}

// inStats writes a cluster's name as Envoy does in the names of statistics. A [strings.Replacer] would do, and be 20 KB
// of the artifacts.
func inStats(name string) string {
	for _, old := range [...]string{"://", ":/", ":", "\x00"} {
		name = strings.ReplaceAll(name, old, "_")
	}
	return name
}
