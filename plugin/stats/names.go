package stats

// Statistics by name, with their labels. Labels are part of the name, as internal/statname writes them: a gateway with
// matching stats_tags turns them into labels. No label value comes from a client, but for the names of models and of
// tenants that engines have answered for, a bounded number of them: see package topnames.
const (
	Decisions   = "warmgate_decisions_total"              // policy, reason: requests, each counted once
	Inflight    = "warmgate_inflight_requests"            // cluster, endpoint: requests in flight over all workers
	Tokens      = "warmgate_inflight_tokens"              // cluster, endpoint: tokens in flight (unit: tokens)
	Ejections   = "warmgate_ejections_total"              // cluster: endpoints ejected for failing
	Ejected     = "warmgate_ejected_endpoints"            // cluster: of these, those that are ejected now
	Owners      = "warmgate_owners"                       // VMs that count requests and are alive
	Returned    = "warmgate_owners_returned_total"        // dead VMs whose leases were returned
	Corrected   = "warmgate_store_corrected_total"        // tables whose totals had to be corrected
	Retries     = "warmgate_store_retries_total"          // swaps lost to another worker and tried again
	Fallbacks   = "warmgate_store_fallbacks_total"        // cause: reservations counted locally, not in Redis
	Failures    = "warmgate_redis_failures_total"         // cause: heartbeats that Redis did not answer well
	RedisUp     = "warmgate_redis_up"                     // 1 when Redis answers; not there before it is needed
	Prompt      = "warmgate_prompt_tokens_total"          // tokens of prompts, as reported (prefix_cache)
	Cached      = "warmgate_cached_tokens_total"          // of them found in KV caches, as reported
	Expected    = "warmgate_expected_cached_tokens_total" // of them expected there when the endpoint was chosen
	MatchError  = "warmgate_match_error_percent"          // api, model: how far expected shares are off
	Unread      = "warmgate_prefix_unread_total"          // cause: prompts not matched, whose bodies have more
	Encoded     = "warmgate_usage_encoded_total"          // answers whose usage was not read: compressed
	Failed      = "warmgate_failed_answers_total"         // cluster, endpoint, reason: under a good status
	Retention   = "warmgate_prefix_retention_seconds"     // cluster: how long endpoints keep prompts
	Losses      = "warmgate_prefix_losses_total"          // cluster: endpoints found to have lost their caches
	Table       = "warmgate_prefix_table_percent"         // cluster: room of the prefix index, of what caches hold
	Scrapes     = "warmgate_metrics_scrapes_total"        // result: pages of metrics that were scraped
	ModelLists  = "warmgate_model_lists_total"            // result: lists of models that endpoints were asked for
	LackModel   = "warmgate_model_lacking_endpoints"      // cluster, model: endpoints without what others serve
	Fresh       = "warmgate_metrics_fresh_endpoints"      // cluster: endpoints of which there are fresh metrics
	Missing     = "warmgate_metrics_lacking_endpoints"    // cluster: of these, those without a needed metric
	Moves       = "warmgate_lease_moves_total"            // requests served by another endpoint than the chosen one
	Sessions    = "warmgate_session_requests_total"       // cluster, result: requests of sessions
	Misrouted   = "warmgate_lease_strays_total"           // requests served by another cluster than the planned one
	Queue       = "warmgate_queue_length"                 // cluster, class: requests that wait, over all owners
	QueueWait   = "warmgate_queue_wait_ms"                // cluster, class: milliseconds that granted ones waited
	Refusals    = "warmgate_queue_refusals_total"         // cluster, class, reason: refused with a queue
	Left        = "warmgate_queue_left_total"             // cluster, class: over while they waited
	Pressure    = "warmgate_backpressure_percent"         // cluster: see package admission
	Parallelism = "warmgate_suggested_parallelism"        // cluster: requests in flight that clients should have
	PushLimit   = "warmgate_endpoint_push_limit"          // cluster, endpoint: requests in flight (push: pending)
	Clusters    = "warmgate_cluster_requests_total"       // cluster, result: sent to one of several clusters
	APICalls    = "warmgate_api_calls_total"              // result: requests to the admission API
	CallerCalls = "warmgate_api_caller_calls_total"       // caller, result: those of callers with tokens of their own
	Panics      = "warmgate_recovered_panics_total"
	Build       = "warmgate_build_info"  // version, revision
	Policy      = "warmgate_policy_info" // policy: 1 while it is in force

	// of requests that are over, by cluster, policy, model and class (of): see requests.go
	Requests         = "warmgate_requests_total"                // of, outcome
	Duration         = "warmgate_request_duration_ms"           // of, outcome: from arrival to end
	TTFT             = "warmgate_ttft_ms"                       // of: arrival to first output
	Prefill          = "warmgate_prefill_ms"                    // of: sent on to first output
	Decode           = "warmgate_decode_ms"                     // of: first to latest output
	PerToken         = "warmgate_time_per_output_token_us"      // of: of the output behind the first token
	Gap              = "warmgate_token_gap_p99_ms"              // of: between parts with output
	RequestTokens    = "warmgate_request_tokens"                // of, kind
	AllTokens        = "warmgate_tokens_total"                  // of, kind, usage
	Cost             = "warmgate_cost_nano_total"               // model, tenant, currency: billionths
	Unpriced         = "warmgate_unpriced_tokens_total"         // model: of models without a price
	Resent           = "warmgate_request_retries_total"         // cluster: attempts behind the first
	Folded           = "warmgate_folded_requests_total"         // kind: counted under "other"
	EndpointRequests = "warmgate_endpoint_requests_total"       // cluster, endpoint, outcome
	EndpointStreams  = "warmgate_endpoint_streams_total"        // cluster, endpoint: streams with output
	EndpointPrefill  = "warmgate_endpoint_prefill_ms_total"     // cluster, endpoint: of these
	EndpointDecode   = "warmgate_endpoint_decode_ms_total"      // cluster, endpoint: likewise
	EndpointTokens   = "warmgate_endpoint_decoded_tokens_total" // cluster, endpoint: their tokens behind the first

	// of what was gained: see package gains
	SavedPrefill = "warmgate_saved_prefill_ms_total"    // cluster, model: what cached tokens would have taken
	PrefillSpeed = "warmgate_prefill_tokens_per_second" // cluster, model: as learned
	NativePicks  = "warmgate_native_picks_total"        // cluster, result: where least_request would have sent requests
	IdleWait     = "warmgate_idle_wait_ms_total"        // cluster, policy: endpoints idle while requests waited
	SlotWait     = "warmgate_slot_wait_ms_total"        // cluster, policy: slots free while requests waited

	// of budgets
	BudgetTokens   = "warmgate_budget_tokens_total"     // cluster, endpoint: tokens that requests have used
	BudgetLeft     = "warmgate_budget_left_tokens"      // cluster, endpoint: in its bucket
	LeftRequests   = "warmgate_budget_left_requests"    // cluster, endpoint: likewise
	BudgetClosed   = "warmgate_budget_closed_ms"        // cluster, endpoint: for how long it is closed
	BudgetRefusals = "warmgate_budget_refusals_total"   // cluster, reason: requests that were refused
	Restricted     = "warmgate_budget_restricted_total" // cluster, endpoint, reason: answers that lowered a budget
	ConfigValid    = "warmgate_config_valid"            // 1 when a good configuration is in force
	ConfigBad      = "warmgate_config_rejected_total"   // configurations refused, as a whole or in part
	BadRules       = "warmgate_config_refused_rules"    // parts of the configuration in force that were refused
	KeptRules      = "warmgate_config_kept_rules"       // of them, those whose last good form is in force
	Reserve        = "warmgate_reserve_us"              // microseconds to choose and reserve, of one request in 16

	// of other regions
	Forwarded    = "warmgate_region_forwarded_total"        // region, reason: requests sent to another region
	CameHome     = "warmgate_region_returned_total"         // region: of these, the ones that were served at home
	ServedFor    = "warmgate_region_served_total"           // region: requests that another region has sent here
	Adopted      = "warmgate_region_adopted"                // region: 1 while its servers are served from here
	AtAdopted    = "warmgate_region_adopted_requests_total" // region, reason: requests sent to such servers
	PeerOpen     = "warmgate_region_available"              // region: 1 while requests may be forwarded there
	PeerAge      = "warmgate_region_probe_age_ms"           // region: milliseconds since its last answer
	PeerRTT      = "warmgate_region_rtt_ms"                 // region: milliseconds of a round trip
	ProbeErrors  = "warmgate_region_probe_errors_total"     // probes not sent, answers that were refused
	ForgedHops   = "warmgate_region_hops_forged_total"      // requests that claimed to come from another region
	OddHops      = "warmgate_region_hops_odd_total"         // cause: forwarded, but late or for another region
	ForgedProbes = "warmgate_region_probes_forged_total"    // probes that were not answered
)
