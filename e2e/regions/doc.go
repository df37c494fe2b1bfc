// Package regions holds the test of two regions with a real gateway each: what finds no open server at home is served
// by the other region, and stays at home when that cannot help.
package regions
