// Package gains says what was gained by how requests are placed, from what a gateway sees of them anyway: how fast
// engines compute prompts, so that cached tokens are worth a time ([Speed]), and what Envoy's least_request would have
// done with the same requests, in a world beside the real one ([Worlds]).
//
// docs/design/gains.md has what is assumed, and how far from the truth it was found to be.
package gains
