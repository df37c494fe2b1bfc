// Package order holds the tests of the order in which a real gateway serves requests that wait: histories of clients
// and servers, with a queue over several workers, are judged by package queuecheck.
package order
