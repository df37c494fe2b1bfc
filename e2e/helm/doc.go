// Package helm tests the Helm chart, deploy/helm, with Helm's own code: what it renders without values of the user is
// what the resources of deploy/ say, whatever it renders fits the schemas of the resources, and mistakes are refused.
//
// It is a module of its own, so that Helm is no dependency of Warmgate. `make e2e-helm` runs it.
package helm
