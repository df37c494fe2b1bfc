// Package compose tests examples/compose: by the libraries of Compose and Prometheus, and by the processes that it
// describes. It is a module of its own, so that these libraries are no dependencies of Warmgate.
package compose
