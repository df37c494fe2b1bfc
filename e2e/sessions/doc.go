// Package sessions holds the tests of consistent_hash with several real gateways: they agree where a session belongs,
// and with Redis its home carries no more than its bound, however many requests come at once.
package sessions
