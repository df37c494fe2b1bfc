//go:build !chaos

package main

// trapOnDemand does nothing in what is shipped.
func trapOnDemand() {}
