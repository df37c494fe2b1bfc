// Package host is what the plugin needs of the gateway that it runs in. Package main implements [Gateway] and
// [GatewayStream] with the host calls of Proxy-Wasm, and tests with a fake gateway in virtual time. [Env] is what every
// part of a VM has of them: the clock, statistics, and a guard for callbacks.
package host
