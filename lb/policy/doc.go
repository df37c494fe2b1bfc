// Package policy has the policies: what turns a request and a view of a cluster's endpoints into a plan.
//
//   - global_least_request: the lowest load in flight per unit of weight.
//   - prefix_cache: the same in tokens, less a credit for the part of the prompt in an endpoint's KV cache.
//   - endpoint_metrics: the endpoint whose engine is likely to serve the request first, or the lowest or highest value
//     of one metric.
//   - consistent_hash: where the request's session belongs, unless the load there is more than its part.
//   - cluster_metrics: among clusters, by requests in flight, latency and failures of each.
//   - token_budget: shares of targets by weight, within tokens and requests a minute; see package budget.
//
// A new policy is one file in this package, which registers its [Descriptor] in an init function.
package policy
