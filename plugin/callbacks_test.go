package main

import (
	"testing"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/proxytest"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/warmgate/warmgate/plugin/config"
)

// start starts the plugin in the SDK's host for tests.
func start(t *testing.T) proxytest.HostEmulator {
	t.Helper()
	theVM = nil
	text := `{"lb_policy":"global_least_request","lb_config":{"unit":"requests"`
	if gatewayKind == config.Envoy {
		text += `,"envoy":{"endpoints":["10.0.0.1:8000"]}`
	}
	text += "}}"
	options := proxytest.NewEmulatorOption().WithVMContext(&vmContext{}).WithPluginConfiguration([]byte(text))
	host, reset := proxytest.NewHostEmulator(options)
	t.Cleanup(reset)
	if host.StartPlugin() != types.OnPluginStartStatusOK {
		t.Fatalf("the plugin does not start: %q", host.GetErrorLogs())
	}
	return host
}

// done does what the SDK does in proxy_on_done, which its host does not call for streams.
func done(t *testing.T, context uint32) {
	t.Helper()
	if sdk.activeContextID = context; !sdk.pluginContexts[context].context.OnPluginDone() {
		t.Error("the gateway is to keep the stream")
	}
}

// A stream ends at the first of these, in whatever order they come: the text for the log has to be there by the log,
// and over HTTP/3 that comes last, or never. After its deletion a stream is not known any more.
func TestStreamEndsInAnyOrder(t *testing.T) {
	for name, isDone := range map[string]bool{"done, log, deletion": true, "log, deletion": false} {
		t.Run(name, func(t *testing.T) {
			host := start(t)
			context := host.InitializeHttpContext()
			s := sdk.httpContexts[context].(*httpContext).stream
			if isDone {
				if done(t, context); !s.Done() {
					t.Error("the stream has not ended when the gateway is done with it")
				}
			}
			host.CompleteHttpContext(context) // logs and deletes
			if !s.Done() {
				t.Error("the stream has not ended when it is logged")
			}
			if len(sdk.httpContexts) > 0 || isDone && len(sdk.pluginContexts) != 1 || len(sdk.contextIDToRootID) != 1 {
				t.Errorf("known are streams %v, configurations %v, of %v: want one configuration alone",
					sdk.httpContexts, sdk.pluginContexts, sdk.contextIDToRootID)
			}
		})
	}
}

// The answer to a call that was made for a stream comes also after its end, and to the configuration.
func TestAnswerAfterTheStream(t *testing.T) {
	host := start(t)
	context := host.InitializeHttpContext()
	sdk.activeContextID = context
	call, answers := httpCall{cluster: "redis", headers: [][2]string{{":path", "/"}}, body: []byte("PING")}, 0
	err := call.send("a test", func(headers, size int) {
		answers++
		if headers != 1 || size != 4 || callHeader(":status") != "200" || callHeader("x") != "" {
			t.Errorf("%d headers and %d bytes, status %q", headers, size, callHeader(":status"))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	done(t, context)
	host.CompleteHttpContext(context)
	calls := host.GetCalloutAttributesFromContext(proxytest.PluginContextID)
	if len(calls) != 1 {
		t.Fatalf("%d calls in the name of the configuration, want 1", len(calls))
	}
	host.CallOnHttpCallResponse(calls[0].CalloutID, [][2]string{{":status", "200"}}, nil, []byte("PONG"))
	if answers != 1 {
		t.Errorf("%d answers, want 1", answers)
	}
}

// The end of the configuration reaches the core.
func TestConfigurationEnds(t *testing.T) {
	host := start(t)
	if !host.FinishVM() || theVM.Newest() != nil {
		t.Error("the configuration is still in force")
	}
}
