package lb

// Reason is why a request was routed as it was. Every instance of the plugin that a request reaches counts it under
// one, with an endpoint chosen inside a cluster under one for each choice. API calls and probes are counted under none.
type Reason uint8

// The reasons. All fall back to the gateway's native balancing, except:
//   - ReasonChosen, ReasonStateLost, ReasonAdopted, ReasonForwarded and ReasonAlreadyDecided;
//   - ReasonBodyMalformed, ReasonBodyAmbiguous, ReasonBodyEncoded and ReasonBodyLate: balanced by the body's length;
//   - those from ReasonAtCapacity to ReasonTenantOverBudget, and from ReasonNoHashHeader to ReasonNotCached: the
//     request is refused;
//   - ReasonLeftQueue: it was over before it was decided.
const (
	ReasonChosen               Reason = iota // balanced: the candidate with the lowest cost
	ReasonDisabled                           // switched off by `enabled: false`, or for all but the API by `api.only`
	ReasonNoRule                             // neither a rule nor the global part of the configuration applies
	ReasonConfigInvalid                      // the configuration is invalid and there is no last good one
	ReasonShadow                             // decided and counted, but routed by the gateway (`shadow: true`)
	ReasonNoCluster                          // the request has no route to a cluster
	ReasonNoEndpoints                        // the cluster's endpoints are not known yet
	ReasonSubset                             // the route may be for a subset of the cluster's endpoints
	ReasonNoHealthyEndpoint                  // no endpoint may get a request
	ReasonNoClusterAvailable                 // no cluster of those to choose among may get a request
	ReasonPanicThreshold                     // too few healthy endpoints: the gateway's panic mode decides
	ReasonBodyMalformed                      // the body is not valid JSON
	ReasonBodyAmbiguous                      // the body contains a relevant key twice
	ReasonBodyEncoded                        // the body is compressed or multipart
	ReasonBodyLate                           // the body is late, or the client awaits 100 Continue: decided without it
	ReasonStateLost                          // balanced: what it refers to is at no endpoint that can be chosen
	ReasonNoMetrics                          // no endpoint has a fresh engine sample
	ReasonAtCapacity                         // every candidate is full and the request does not wait: it is refused
	ReasonMaxQueueSizeExceeded               // the queue is full, or the request has lost its place to a higher class
	ReasonDeadlineUnreachable                // the request is not likely to be placed in time
	ReasonQueueTimeout                       // the request has waited for as long as it may
	ReasonRetryBudgetExceeded                // too many requests are retries
	ReasonOverBudget                         // no target has the tokens or the room for it now: it is refused
	ReasonTenantOverBudget                   // its tenant has used up its budget: it is refused
	ReasonLeftQueue                          // the client left, or the gateway answered, while the request waited
	ReasonNoHashHeader                       // the header that names its cluster is missing: the request is refused
	ReasonOwnCluster                         // the route leads to a cluster of the plugin's own: the request is refused
	ReasonNoneInSubset                       // no endpoint of the subset that it is for can be chosen: it is refused
	ReasonNoModel                            // no endpoint lists its model: it is refused
	ReasonNotCached                          // `Prefer: if-available`, and its prompt is not cached: it is refused
	ReasonForwarded                          // sent to the gateways of another region, which decide
	ReasonAdopted                            // balanced over the servers of another region, whose gateways are gone
	ReasonAlreadyDecided                     // the plugin is in the filter chain twice: the first instance has decided
	ReasonStoreError                         // the store could not count the request
	ReasonPanic                              // a programming error was caught
	reasonCount
)

var reasonNames = [reasonCount]string{
	"chosen", "disabled", "no_rule", "config_invalid", "shadow", "no_cluster", "no_endpoints", "subset",
	"no_healthy_endpoint", "no_cluster_available",
	"panic_threshold", "body_malformed", "body_ambiguous", "body_encoded", "body_late", "state_lost", "no_metrics",
	"at_capacity", "max_queue_size_exceeded", "deadline_unreachable", "queue_timeout", "retry_budget_exceeded",
	"over_budget", "tenant_over_budget", "left_queue", "no_hash_header", "own_cluster", "none_in_subset",
	"no_model", "not_cached", "forwarded", "adopted", "already_decided", "store_error", "panic",
}

// String returns the name of the reason in statistics, headers and logs.
func (r Reason) String() string {
	if r < reasonCount {
		return reasonNames[r]
	}
	return "unknown"
}

// Reasons returns every reason.
func Reasons() []Reason {
	all := make([]Reason, reasonCount)
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}
