// Package lab runs what a control plane makes of the resources in deploy/ in a real Envoy, with traffic to simulated
// model servers: Start runs an Envoy with a bootstrap of the control plane's, Servers are the model servers, and Check
// sends the requests that show whether the gateway balances, steers, retries and counts them as the plugin has chosen.
//
// Tunnel is the way to Redis that all gateways have, to compare with.
//
// The control planes are in modules of their own, beside this folder, so that their dependencies are none of Warmgate.
package lab
