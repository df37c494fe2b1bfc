package core

import (
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
)

// Statistics by name, with their labels. Labels are part of the name, as internal/statname writes them: a gateway with
// matching stats_tags turns them into labels. No label value comes from a client, but for the names of models that
// engines have answered for: see matchErrors.
const (
	statDecisions   = "warmgate_decisions_total"              // policy, reason: requests, each counted once
	statInflight    = "warmgate_inflight_requests"            // cluster, endpoint: requests in flight over all workers
	statTokens      = "warmgate_inflight_tokens"              // cluster, endpoint: tokens in flight (unit: tokens)
	statEjections   = "warmgate_ejections_total"              // cluster: endpoints ejected for failing
	statEjected     = "warmgate_ejected_endpoints"            // cluster: of these, those that are ejected now
	statOwners      = "warmgate_owners"                       // VMs that count requests and are alive
	statReturned    = "warmgate_owners_returned_total"        // dead VMs whose leases were returned
	statCorrected   = "warmgate_store_corrected_total"        // tables whose totals had to be corrected
	statRetries     = "warmgate_store_retries_total"          // swaps lost to another worker and tried again
	statFallbacks   = "warmgate_store_fallbacks_total"        // cause: reservations counted locally, not in Redis
	statFailures    = "warmgate_redis_failures_total"         // cause: heartbeats that Redis did not answer well
	statRedisUp     = "warmgate_redis_up"                     // 1 when Redis answers; not there before it is needed
	statPrompt      = "warmgate_prompt_tokens_total"          // tokens of prompts, as reported (prefix_cache)
	statCached      = "warmgate_cached_tokens_total"          // of them found in KV caches, as reported
	statExpected    = "warmgate_expected_cached_tokens_total" // of them expected there when the endpoint was chosen
	statMatchError  = "warmgate_match_error_percent"          // api, model: matchError
	statUnread      = "warmgate_prefix_unread_total"          // cause: prompts not matched, whose bodies have more
	statEncoded     = "warmgate_usage_encoded_total"          // answers whose usage was not read: encoded
	statFailed      = "warmgate_failed_answers_total"         // cluster, endpoint, reason: under a good status
	statRetention   = "warmgate_prefix_retention_seconds"     // cluster: how long endpoints keep prompts
	statLosses      = "warmgate_prefix_losses_total"          // cluster: endpoints found to have lost their caches
	statTable       = "warmgate_prefix_table_percent"         // cluster: room of the prefix index: promptStats.share
	statScrapes     = "warmgate_metrics_scrapes_total"        // result: pages of metrics that were scraped
	statModelLists  = "warmgate_model_lists_total"            // result: lists of models that endpoints were asked for
	statFresh       = "warmgate_metrics_fresh_endpoints"      // cluster: endpoints of which there are fresh metrics
	statMissing     = "warmgate_metrics_lacking_endpoints"    // cluster: of these, those without a needed metric
	statMoves       = "warmgate_lease_moves_total"            // requests served by another endpoint than the chosen one
	statSessions    = "warmgate_session_requests_total"       // cluster, result: sessionPlaced
	statMisrouted   = "warmgate_lease_strays_total"           // requests served by another cluster than the planned one
	statQueue       = "warmgate_queue_length"                 // cluster, class: requests that wait, over all owners
	statQueueWait   = "warmgate_queue_wait_ms"                // cluster, class: milliseconds that granted ones waited
	statRefusals    = "warmgate_queue_refusals_total"         // cluster, class, reason: refused with a queue
	statLeft        = "warmgate_queue_left_total"             // cluster, class: over while they waited
	statPressure    = "warmgate_backpressure_percent"         // cluster: pressure.share
	statParallelism = "warmgate_suggested_parallelism"        // cluster: requests in flight that clients should have
	statPushLimit   = "warmgate_endpoint_push_limit"          // cluster, endpoint: requests in flight (push: pending)
	statClusters    = "warmgate_cluster_requests_total"       // cluster, result: sent to one of several clusters
	statAPICalls    = "warmgate_api_calls_total"              // result: requests to the admission API
	statPanics      = "warmgate_recovered_panics_total"
	statBuild       = "warmgate_build_info" // version, revision: VM.setBuild

	// of budgets
	statBudgetTokens   = "warmgate_budget_tokens_total"     // cluster, endpoint: tokens that requests have used
	statBudgetLeft     = "warmgate_budget_left_tokens"      // cluster, endpoint: in its bucket
	statLeftRequests   = "warmgate_budget_left_requests"    // cluster, endpoint: likewise
	statBudgetClosed   = "warmgate_budget_closed_ms"        // cluster, endpoint: for how long it is closed
	statBudgetRefusals = "warmgate_budget_refusals_total"   // cluster, reason: requests that were refused
	statRestricted     = "warmgate_budget_restricted_total" // cluster, endpoint, reason: answers that lowered a budget
	statConfigValid    = "warmgate_config_valid"            // 1 when a good configuration is in force
	statConfigBad      = "warmgate_config_rejected_total"   // configurations refused, as a whole or in part
	statBadRules       = "warmgate_config_refused_rules"    // parts of the configuration in force that were refused
	statKeptRules      = "warmgate_config_kept_rules"       // of them, those whose last good form is in force
	statReserve        = "warmgate_reserve_us"              // microseconds to choose and reserve, of one request in 16

	// of other regions
	statForwarded    = "warmgate_region_forwarded_total"        // region, reason: requests sent to another region
	statCameHome     = "warmgate_region_returned_total"         // region: of these, the ones that were served at home
	statServedFor    = "warmgate_region_served_total"           // region: requests that another region has sent here
	statAdopted      = "warmgate_region_adopted"                // region: 1 while its servers are served from here
	statAtAdopted    = "warmgate_region_adopted_requests_total" // region, reason: requests sent to such servers
	statPeerOpen     = "warmgate_region_available"              // region: 1 while requests may be forwarded there
	statPeerAge      = "warmgate_region_probe_age_ms"           // region: milliseconds since its last answer
	statPeerRTT      = "warmgate_region_rtt_ms"                 // region: milliseconds of a round trip
	statProbeErrors  = "warmgate_region_probe_errors_total"     // probes not sent, answers that were refused
	statForgedHops   = "warmgate_region_hops_forged_total"      // requests that claimed to come from another region
	statOddHops      = "warmgate_region_hops_odd_total"         // cause: forwarded, but late or for another region
	statForgedProbes = "warmgate_region_probes_forged_total"    // probes that were not answered
)

// stats are the plugin's statistics, defined when first used.
type stats struct {
	m         Metrics
	decisions map[string]*[maxReasons]uint32 // by policy; 0 = not defined
	ids       map[string]uint32
	seen      memstore.Stats
}

const maxReasons = 40

func newStats(m Metrics) *stats {
	return &stats{m: m, decisions: map[string]*[maxReasons]uint32{}, ids: map[string]uint32{}}
}

// decided counts one request.
func (s *stats) decided(policy string, r lb.Reason) {
	if policy == "" {
		policy = "none"
	}
	ids := s.decisions[policy]
	if ids == nil {
		ids = new([maxReasons]uint32)
		s.decisions[policy] = ids
	}
	if ids[r] == 0 {
		ids[r] = s.m.Counter(statname.With(statDecisions, "policy", policy, "reason", r.String())) + 1
	}
	s.m.Add(ids[r]-1, 1)
}

// ofCluster returns the name of a cluster's statistic. It is not inlined, for the size of the artifacts.
//
//go:noinline
func ofCluster(stat, cluster string) string { return statname.With(stat, "cluster", cluster) }

// ofEndpoint returns the name of an endpoint's statistic.
func ofEndpoint(stat, cluster, endpoint string) string {
	return statname.With(stat, "cluster", cluster, "endpoint", endpoint)
}

func (s *stats) id(name string, define func(string) uint32) uint32 {
	id, ok := s.ids[name]
	if !ok {
		id = define(name)
		s.ids[name] = id
	}
	return id
}

// room reports whether a statistic may be used: it is there, or may still be defined. Those of decisions are not
// counted.
func (s *stats) room(name string) bool { return s.has(name) || len(s.ids) < maxNames }

// has reports whether a statistic is defined.
func (s *stats) has(name string) bool {
	_, ok := s.ids[name]
	return ok
}

// count adds to a counter.
func (s *stats) count(name string, n uint64) {
	id := s.id(name, s.m.Counter)
	if n > 0 {
		s.m.Add(id, int64(n))
	}
}

// set sets a gauge.
func (s *stats) set(name string, n uint64) { s.m.Set(s.id(name, s.m.Gauge), n) }

// countIf adds to a counter if there is room for it, and reports whether there is.
func (s *stats) countIf(name string, n uint64) bool {
	if !s.room(name) {
		return false
	}
	s.count(name, n)
	return true
}

// setIf sets a gauge if there is room for it.
func (s *stats) setIf(name string, n uint64) {
	if s.room(name) {
		s.set(name, n)
	}
}

// recordIf adds a value to a histogram if there is room for it.
func (s *stats) recordIf(name string, n uint64) {
	if s.room(name) {
		s.m.Set(s.id(name, s.m.Histogram), n)
	}
}

// reserved records how long a reservation took.
func (s *stats) reserved(d time.Duration) {
	s.m.Set(s.id(statReserve, s.m.Histogram), uint64(max(0, d.Microseconds())))
}

// store counts what the store has had to do since the last call.
func (s *stats) store(now memstore.Stats) {
	s.count(statRetries, now.Retries-s.seen.Retries)
	s.count(statReturned, now.Returned-s.seen.Returned)
	s.count(statCorrected, now.Corrected-s.seen.Corrected)
	s.seen = now
}
