// Package response is what comes of the response to a request: how its body is read as it passes, when it has begun,
// and what its end says of who has served it. It knows clusters, and nothing of plans, leases or queues.
package response
