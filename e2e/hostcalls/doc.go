// Package hostcalls counts the host calls of both artifacts, in the host of package higresshost: how many a request
// makes, in which callback, with how many bytes, by policy, store and gateway. Its test compares them with the tables
// in docs/benchmarks/host-calls.md, so that none is added unnoticed:
//
//	go test ./e2e/hostcalls -update
//
// rewrites the tables.
package hostcalls
