// Package streamtest is the suite of what one request may meet on its way through the plugin: every scenario is written
// once and runs on every gateway that has a [Gateway].
//
// Three do: the fake gateway of the plugin's own tests (native code), the test host for the compiled Higress artifact,
// and a real Envoy with the compiled Envoy artifact. The test plays the client and the model servers, step by step; the
// gateway does the rest. A gateway that cannot express a scenario gives a reason, and the scenario is skipped with that
// reason.
//
// A scenario is an entry in the list of its subject, such as healthScenarios in health.go. What it may do and want is
// in run.go, stream.go and stats.go; what several subjects share is in requests.go, configs.go, failures.go and
// targets.go, and what only one needs is in its file.
//
// Endpoints are named by their index in the list that was last given to [Gateway.SetEndpoints].
package streamtest
