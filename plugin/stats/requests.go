package stats

import (
	"strings"

	"github.com/warmgate/warmgate/internal/topnames"
	"github.com/warmgate/warmgate/plugin/measured"
)

// This file counts requests that are over. Values of histograms go to the gateway at once, counters once a second: a VM
// that dies takes what it has counted since.
//
// The gateway frees no statistic, and names of models, tenants and even clusters come from clients: so a VM defines a
// bounded number of them, and counts the rest as "other".

const (
	// A label costs the gateway statistics for as long as it runs, and few gateways serve more models.
	firstModels, moreModels = 32, 32
	// maxClusters is how many clusters have labels: where a route takes them from a header a client can make up any,
	// but none with an endpoint.
	maxClusters = 256
	// maxCombinations is how many clusters, policies, models and classes are told apart together. Each combination is
	// up to 14 counters, and 13 histograms of 27 buckets.
	maxCombinations = 192
	// reserved is how many more there may be: with a pinned model, with all that is not told apart, and up to half of
	// it with a model whose classes are not told apart.
	reserved = 64
)

// combination is what of requests the statistics tell apart.
type combination struct{ cluster, policy, model, class string }

// requests are the statistics of requests.
type requests struct {
	m            Metrics
	models       *topnames.Names
	clusters     map[string]bool // that have served a request
	combinations map[combination]*series
	costs        *costs
	endpoints    *endpoints
	retries      map[string]*counter // by cluster
	folded       [foldedKinds]counter
	waiting      []*series // of the combinations, those that are to be flushed
}

func newRequests(m Metrics) *requests {
	return &requests{
		m:            m,
		models:       topnames.New(firstModels, moreModels),
		clusters:     map[string]bool{},
		combinations: map[combination]*series{},
		costs:        newCosts(),
		endpoints:    newEndpoints(),
		retries:      map[string]*counter{},
	}
}

// folds are what can be counted as "other".
const (
	foldedModel = iota
	foldedTenant
	foldedEndpoint
	foldedCluster
	foldedCombination
	foldedKinds
)

var foldedNames = [foldedKinds]string{"model", "tenant", "endpoint", "cluster", "combination"}

// count counts a request that is over.
func (r *requests) count(m *measured.Request) {
	of := r.of(m)
	if !of.waits {
		of.waits = true
		r.waiting = append(r.waiting, of)
	}
	of.requests[m.Outcome].n++
	if m.Idle {
		return
	}
	of.measure(r.m, m)
	r.retried(of.cluster, m.Retries)
	if !r.endpoints.measure(of.cluster, m) {
		r.folded[foldedEndpoint].n++
	}
	if !r.costs.count(of.model, m, answered(m)) {
		r.folded[foldedTenant].n++
	}
}

// flush gives the gateway what was counted since the last call.
func (r *requests) flush() {
	for _, of := range r.waiting {
		of.flush(r.m)
	}
	r.waiting = r.waiting[:0]
	r.endpoints.flush(r.m)
	r.costs.flush(r.m)
	for cluster, k := range r.retries {
		k.flush(r.m, func() string { return OfCluster(Resent, cluster) })
	}
	for kind := range r.folded {
		r.folded[kind].flush(r.m, func() string { return ofKind(Folded, foldedNames[kind]) })
	}
}

// retried counts the attempts behind the first.
func (r *requests) retried(cluster string, n int) {
	if n == 0 {
		return
	}
	k := r.retries[cluster]
	if k == nil {
		k = &counter{}
		r.retries[cluster] = k
	}
	k.n += int64(n)
}

// answered reports whether a server has computed something for the names in a request.
func answered(m *measured.Request) bool {
	return m.Outcome == measured.OK && m.Tokens.Prompt()+m.Tokens.Completion() > 0
}

// of returns what a request is counted in.
func (r *requests) of(m *measured.Request) *series {
	key := combination{m.Cluster, m.Policy, asked(m), m.Class}
	if key.policy == "" {
		key.policy = "none"
	}
	if found := r.combinations[key]; found != nil {
		return found
	}
	key.cluster = r.clusterOf(m)
	if key.model != "" && !r.models.Use(key.model, answered(m)) {
		r.folded[foldedModel].n++
		key.model = topnames.Other
	}
	return r.find(key, answered(m))
}

// asked returns the model that a request is counted for, as the client has named it.
func asked(m *measured.Request) string {
	switch {
	case m.Idle:
		return ""
	case m.Model != "":
		return m.Model
	}
	return m.Asked
}

// clusterOf returns the label of the cluster of a request: its name if one was ever served there.
func (r *requests) clusterOf(m *measured.Request) string {
	known := m.Cluster == "" || r.clusters[m.Cluster]
	served := m.Endpoint != "" || m.Outcome == measured.OK
	if !known && served && len(r.clusters) < maxClusters {
		known, r.clusters[strings.Clone(m.Cluster)] = true, true
	}
	if !known {
		r.folded[foldedCluster].n++
		return topnames.Other
	}
	return m.Cluster
}

// find returns the series with the labels, or those that they are folded into. A client can ask for any model, and
// have it refused: so a model gets a place by an answer, or because it has a price. When places run out the class is
// folded first, then the model, and in the end the cluster.
func (r *requests) find(key combination, answered bool) *series {
	if found := r.combinations[key]; found != nil {
		return found
	}
	pinned, left := r.models.IsPinned(key.model), maxCombinations-len(r.combinations)
	if key.model != "" && key.model != topnames.Other && !answered && !pinned {
		key.model = topnames.Other
		r.folded[foldedCombination].n++
		return r.find(key, false)
	}
	if left > 0 || left > -reserved && pinned {
		return r.add(key)
	}
	r.folded[foldedCombination].n++
	key.class = topnames.Other
	if r.combinations[key] == nil && (left <= -reserved/2 || !answered) {
		key.model = topnames.Other
	}
	if r.combinations[key] == nil && left <= -reserved {
		key.cluster, key.policy = topnames.Other, topnames.Other
	}
	return r.add(key)
}

// add returns the series with the labels, which are there from now on.
func (r *requests) add(key combination) *series {
	found := r.combinations[key]
	if found == nil {
		// The texts may be parts of large ones.
		key = combination{
			strings.Clone(key.cluster), strings.Clone(key.policy), strings.Clone(key.model), strings.Clone(key.class),
		}
		found = &series{combination: key}
		r.combinations[key] = found
	}
	return found
}
