// Package among tests choices among clusters (lb_type: cluster) on a real Envoy, with the shipped routes and clusters.
package among
