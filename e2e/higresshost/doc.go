// Package higresshost runs a compiled Proxy-Wasm plugin the way a Higress gateway does, inside a Go test.
//
// A [Gateway] is one gateway process: a main thread and some workers, each with its own VM, sharing shared data and
// metrics. Time is simulated: nothing sleeps, [Gateway.Advance] moves the clock and delivers ticks, timeouts and timers
// in order. The test acts as the client and the model servers; the gateway is the HTTP filter chain (the plugin) and
// the router:
//
//	gw := higresshost.Start(t, higresshost.Options{Wasm: wasm, Config: config, Workers: 2})
//	llm := gw.Cluster("llm")
//	llm.Add("10.0.0.1:8000")
//	llm.Add("10.0.0.2:8000")
//
//	s := gw.Worker(0).Request("POST", "/v1/chat/completions", body) // headers and body, to the router
//	fmt.Println(s.Upstream(), s.Paused())                           // where it went, or whether the plugin holds it
//	s.Respond(200, "ok")                                            // the model server answers, the stream ends
//
// # What is modelled
//
// Requests, the router and clusters are those of e2e/fakehost. Added here are: resuming from another context through
// proxy_set_effective_context, traps that take the VM and all its streams along, configuration changes (a new root
// context in the same VM, the old one drains), code changes (a new VM), crash recovery and rebuild, the canary VM in
// which every configuration runs first, shared data with compare-and-swap, Redis and HTTP calls answered by the test.
// Calls that Warmgate does not make exist and are not modelled.
//
// # Profiles
//
// [Higress22] and [Higress21] differ where the Envoy below them differs: strict override hosts, and whether the body
// callback sees the newest frame while it buffers. [StockEnvoy] offers no Higress call and routes a module by the rules
// of ABI 0.2.1; it serves to test which artifact loads where.
//
// # Violations
//
// What a real host ignores silently, but no plugin should do, is recorded: see [Gateway.Violations]. [Start] fails the
// test if any is left at its end.
//
// A Gateway is driven by one goroutine; it is not safe for concurrent use. [Gateway.OnHostCall] gives a test the places
// where another worker would run in between.
package higresshost
