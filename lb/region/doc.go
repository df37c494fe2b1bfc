// Package region decides which requests a region's gateway forwards to the gateway of another region, and which of
// another's it takes as its own. It does no I/O: its caller sends what [Prober.Ask] returns and passes on what comes.
//
// # Two layers
//
// The gateways of a region balance its endpoints. Only when none of them is open, a request goes to another region's
// gateway, which places it among its own. No gateway chooses an endpoint of another region, unless that region's
// gateways are gone.
//
// # What one region knows of another
//
// One worker of each gateway probes the peers ([Prober]): it asks with a signed text, and the answer says how many
// endpoints are open, how many requests wait, and how long a wait is expected ([State]). All workers read that from
// shared memory ([Board]) and count there what they forward. So a peer that has answered is available for as many
// requests as it has open endpoints and room in its buffer, until it answers again, however many workers see that
// answer.
//
// What a gateway has forwarded is in a prefix index of its own ([Snapshot]): prompts go where the beginning of them
// went.
//
// # Trust
//
// Regions share a secret ([Key]). A probe is answered only if it is signed, is for this region, was made within
// [MaxSkew], and was not answered before ([Replays]). An answer counts only if it is signed and has the nonce of a
// probe that is under way. A request that was forwarded carries a signed hop ([Key.ReadHop]), so that it is not
// forwarded again, and not counted as a client's if it is not late; a hop that a client has made up is recognized.
//
// # Regions that are gone
//
// A peer that misses two probes in a row is not available. After [Config.Gone] without an answer it is gone: then the
// nearest region that is configured to serves its servers. Each region decides that for itself, from what the others
// say in their answers ([View]): none adopts servers of gateways that another region hears, by any of its gateways. The
// servers are given back when the gateways have answered every probe for [Config.Steady].
//
// Times are durations on the clock that a gateway's workers share, but for those that regions tell each other: these
// are since the Unix epoch.
package region
