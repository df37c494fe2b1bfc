package lb

// Reason says why a request went where it went. Every request that reaches the plugin is counted under exactly one.
type Reason uint8

// The reasons. All leave the request to the gateway's native balancing, but ReasonChosen, those of a body that could
// not be read, which is weighed by its length, ReasonAlreadyDecided, and ReasonAtCapacity and ReasonOwnCluster, which
// refuse it.
const (
	ReasonChosen            Reason = iota // the least cost among the candidates
	ReasonDisabled                        // switched off by `enabled: false`
	ReasonNoRule                          // neither a rule nor a global part of the configuration applies
	ReasonConfigInvalid                   // the configuration was refused and there was no good one before it
	ReasonShadow                          // decided and counted, but routed by the gateway (`shadow: true`)
	ReasonNoCluster                       // the request has no route to a cluster
	ReasonNoEndpoints                     // nothing is known of the cluster's endpoints yet
	ReasonSubset                          // the route may be for a part of the cluster's endpoints only
	ReasonNoHealthyEndpoint               // no endpoint may take a request
	ReasonPanicThreshold                  // too few healthy endpoints: the gateway's own panic mode decides
	ReasonBodyMalformed                   // the body is not the JSON it should be
	ReasonBodyAmbiguous                   // a key that decides is in the body twice
	ReasonBodyEncoded                     // the body is compressed or multipart
	ReasonBodyLate                        // the body did not arrive in time, or comes on request: decided without it
	ReasonNoMetrics                       // no endpoint has said of late how it is
	ReasonAtCapacity                      // every candidate is at its cap: the request is shed
	ReasonOwnCluster                      // a route leads to a cluster of the plugin's own: the request is refused
	ReasonAlreadyDecided                  // the plugin is in the filter chain twice: its first instance has decided
	ReasonStoreError                      // the store could not count the request
	ReasonPanic                           // a programming error was caught
	reasonCount
)

var reasonNames = [reasonCount]string{
	"chosen", "disabled", "no_rule", "config_invalid", "shadow", "no_cluster", "no_endpoints", "subset",
	"no_healthy_endpoint",
	"panic_threshold", "body_malformed", "body_ambiguous", "body_encoded", "body_late", "no_metrics", "at_capacity",
	"own_cluster", "already_decided", "store_error", "panic",
}

// String returns the reason's name as it appears in statistics, headers and logs.
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
