// Package request is what is read of a request: its headers, which call it is, its session, its body as that comes, the
// prompt in it and how much work that is, and what it has to do with facts about models, with the state and with the
// metrics of engines; and what its answer shows of these. It knows configurations and clusters, and no lease, no
// place in a queue and no other region.
//
// A [Request] is the same for all that is chosen for it. A [Subject] is the request as one choice sees it.
package request
