// Package security holds the tests of what SECURITY.md promises of a gateway with the shipped configuration: a client
// cannot choose its endpoint, internal headers stay inside, and nothing that a client or an operator wrote reaches a
// log.
package security
