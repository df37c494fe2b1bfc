// Package budget is the rule by which requests are shared out between targets that have budgets: model backends or
// endpoints with a share of the traffic, tokens and requests a minute. It has no clock and no memory of its own; stores
// keep a [State] for each target and change it in the step that counts the request. The scripts of the store in Redis
// are compared with this package by tests.
//
// A target can take a request if it is not closed, is below its cap of requests in flight, and has enough in its
// buckets, which refill continuously. Of those that can, weighted deficit round robin decides: each round adds its
// weight to the deficit of every target; there are as many rounds as it takes until one of them has a deficit of the
// request's tokens; of those that have, the next one in order after the target that was served last takes the request,
// and its tokens are subtracted from the deficit. So a deficit never makes a request wait, and over time the targets
// that can take requests get tokens in proportion to their weights. See Shreedhar and Varghese: "Efficient Fair Queuing
// Using Deficit Round-Robin", 1996. Here rounds are real numbers, so that one step is enough whatever the weights are.
//
// All times are in ms, as numbers, and all amounts are float64: Lua computes with nothing else.
package budget
