// Package harness runs the shipped configuration in a real Envoy on this machine, for tests, benchmarks and the demo.
//
// It fetches a pinned Envoy (Envoy), builds the plugin (Wasm), starts a gateway from the files in envoy-config (Start)
// and then changes the plugin's configuration, the endpoints or the native policy of the running gateway (PushPlugin,
// PushEndpoints, PushCluster) the way an operator does: by replacing the files that Envoy watches. What a test needs to
// differ from the shipped files, such as ports and paths, is edited node by node in the parsed YAML, never by text
// templates.
//
// Everything listens on 127.0.0.1 and dies with the process that started it. Linux only, as are the Envoy wheels.
package harness
