// Package stats is the plugin's statistics: their names and labels, counting by them, and what is shown of a cluster.
// Whoever counts says where it happens; nothing here knows requests.
package stats
