// Package engines is what a VM learns from the engines of clusters: which metrics its requests need, what is scraped
// for whom, samples that all VMs share, and which models endpoints list. Where requests are counted, and which clusters
// and configurations there are, it is told by [Counts], [Clusters] and a function.
package engines
