// Package vm is what lives as long as the gateway's VM: a [VM] with all its parts, and in it a [Plugin] for each
// configuration in force. Their On... methods are the gateway's callbacks. What they need of the gateway is in package
// host. Nothing here places a request.
package vm
