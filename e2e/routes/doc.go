// Package routes has no code of its own: its tests run routes on a real Envoy that are more than one cluster each.
// Routers in front of the plugin and behind it, redirects, retries, subsets, mirrors, and clusters of clusters.
package routes
