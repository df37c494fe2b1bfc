// Package stats is the plugin's statistics: their names and labels, and counting by them. Whoever counts says where it
// happens; nothing here knows requests.
package stats
