package main

import (
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
)

// sdkStream is the part of a Stream that is the same on both gateways.
type sdkStream struct{}

// property returns a property of the request, "" when there is none.
func property(path ...string) string {
	v, err := proxywasm.GetProperty(path)
	if err != nil {
		return ""
	}
	return string(v)
}

// RequestHeaders implements core.GatewayStream.
func (s sdkStream) RequestHeaders() [][2]string {
	headers, err := proxywasm.GetHttpRequestHeaders()
	if err != nil {
		return nil
	}
	return headers
}

// RequestBody implements core.GatewayStream.
func (s sdkStream) RequestBody(max int) []byte {
	b, err := proxywasm.GetHttpRequestBody(0, max)
	if err != nil {
		return nil
	}
	return b
}

// ResponseBody implements core.GatewayStream.
func (s sdkStream) ResponseBody(from, max int) []byte {
	b, err := proxywasm.GetHttpResponseBody(from, max)
	if err != nil {
		return nil
	}
	return b
}

// Client implements core.GatewayStream.
func (s sdkStream) Client() string { return property("source", "address") }

// ServedBy implements core.GatewayStream.
func (s sdkStream) ServedBy() string { return property("upstream", "address") }

// Details implements core.GatewayStream.
func (s sdkStream) Details() string { return property("response", "code_details") }

// SetRequestHeader implements core.GatewayStream.
func (s sdkStream) SetRequestHeader(name, value string) {
	_ = proxywasm.ReplaceHttpRequestHeader(name, value)
}

// RemoveRequestHeader implements core.GatewayStream.
func (s sdkStream) RemoveRequestHeader(name string) { _ = proxywasm.RemoveHttpRequestHeader(name) }

// SetCluster implements core.GatewayStream. The gateway selects the route again once a request header has changed: both
// do for a module of the ABI that they are built for.
func (s sdkStream) SetCluster(header, cluster string) {
	if cluster == "" {
		_ = proxywasm.RemoveHttpRequestHeader(header)
		return
	}
	_ = proxywasm.ReplaceHttpRequestHeader(header, cluster)
}

// RemoveResponseHeader implements core.GatewayStream.
func (s sdkStream) RemoveResponseHeader(name string) { _ = proxywasm.RemoveHttpResponseHeader(name) }

// ResponseHeader implements core.GatewayStream.
func (s sdkStream) ResponseHeader(name string) string {
	v, err := proxywasm.GetHttpResponseHeader(name)
	if err != nil {
		return ""
	}
	return v
}

// ResponseHeaders implements core.GatewayStream.
func (s sdkStream) ResponseHeaders() [][2]string {
	headers, err := proxywasm.GetHttpResponseHeaders()
	if err != nil {
		return nil
	}
	return headers
}

// SetResponseHeader implements core.GatewayStream. The headers serve debugging only, so errors do not matter.
func (s sdkStream) SetResponseHeader(name, value string) {
	_ = proxywasm.ReplaceHttpResponseHeader(name, value)
}

// SetNote implements core.GatewayStream: the access log finds the text as %FILTER_STATE(wasm.warmgate:PLAIN)%.
func (s sdkStream) SetNote(text string) {
	_ = proxywasm.SetProperty([]string{"warmgate"}, []byte(text))
}

// Note implements core.GatewayStream.
func (s sdkStream) Note() string { return property("warmgate") }

// Resume implements core.GatewayStream.
func (s sdkStream) Resume() { _ = proxywasm.ResumeHttpRequest() }

// Reply implements core.GatewayStream.
func (s sdkStream) Reply(status int, headers [][2]string, body string) {
	_ = proxywasm.SendHttpResponseWithDetail(uint32(status), "warmgate", headers, []byte(body), -1)
}
