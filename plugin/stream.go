package main

import (
	"encoding/binary"
	"strings"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
)

// stream is the part of a host.GatewayStream that is the same on both gateways.
type stream struct{}

// property returns a property of the request, or of the gateway, "" when there is none.
func property(path ...string) string { return name(text(propertyBytes(path...))) }

// propertyBytes does so without a string: the bytes are valid until the next host call.
func propertyBytes(path ...string) []byte {
	v, _ := readProperty(path) // nil if there is an error
	return v
}

func readProperty(path []string) ([]byte, error) {
	lent = scratch[:]
	v, err := proxywasm.GetProperty(path)
	lent = nil
	return v, err
}

const (
	maxNames      = 1024 // that are remembered
	maxNameLength = 64
)

var names = map[string]string{}

// name returns a copy of s. Requests have the same clusters, routes, endpoints and statuses again and again: these do
// not need a new string each time.
func name(s string) string {
	if known, ok := names[s]; ok {
		return known
	}
	s = strings.Clone(s)
	if len(s) > maxNameLength {
		return s
	}
	if len(names) >= maxNames { // clients can make some of them
		clear(names)
	}
	names[s] = s
	return s
}

// RequestHeaders implements host.GatewayStream.
func (stream) RequestHeaders() [][2]string {
	headers, _ := proxywasm.GetHttpRequestHeaders() // nil if there is an error
	return headers
}

// bodyMemory is lent for bodies of requests.
var bodyMemory []byte

// maxBodyMemory is how much of it is kept: the memory of a VM never shrinks.
const maxBodyMemory = 1 << 20

// RequestBody implements host.GatewayStream.
func (stream) RequestBody(from, max int) []byte {
	lent = bodyMemory
	b, _ := proxywasm.GetHttpRequestBody(from, max) // nil if there is an error
	lent = nil
	bodyMemory = keepMemory(bodyMemory, b, maxBodyMemory)
	return b
}

// ResponseBody implements host.GatewayStream.
func (stream) ResponseBody(from, max int) []byte {
	lent = scratch[:]
	b, _ := proxywasm.GetHttpResponseBody(from, max) // nil if there is an error
	lent = nil
	return b
}

// Client implements host.GatewayStream.
func (stream) Client() string { return string(propertyBytes("source", "address")) }

// SubsetHint implements host.GatewayStream.
func (stream) SubsetHint() []byte {
	v, err := readProperty(subsetHint)
	if err == nil && v == nil { // it is there, and names nothing
		v = []byte{}
	}
	return v
}

var subsetHint = []string{
	"metadata", "filter_metadata", "envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset",
}

// ServedBy implements host.GatewayStream.
func (stream) ServedBy() string { return property("upstream", "address") }

// Attempts implements host.GatewayStream. The number comes as eight bytes.
func (stream) Attempts() int {
	b := propertyBytes("upstream", "request_attempt_count")
	if len(b) != 8 {
		return 0
	}
	return int(binary.LittleEndian.Uint64(b))
}

// Details implements host.GatewayStream.
func (stream) Details() string { return property("response", "code_details") }

// SetRequestHeader implements host.GatewayStream.
func (stream) SetRequestHeader(name, value string) {
	_ = proxywasm.ReplaceHttpRequestHeader(name, value)
}

// RemoveRequestHeader implements host.GatewayStream.
func (stream) RemoveRequestHeader(name string) { _ = proxywasm.RemoveHttpRequestHeader(name) }

// SetCluster implements host.GatewayStream. The gateway selects the route again once a request header has changed: both
// do for a module of the ABI that they are built for.
func (s stream) SetCluster(header, cluster string) {
	if cluster == "" {
		s.RemoveRequestHeader(header)
		return
	}
	s.SetRequestHeader(header, cluster)
}

// RemoveResponseHeader implements host.GatewayStream.
func (stream) RemoveResponseHeader(name string) { _ = proxywasm.RemoveHttpResponseHeader(name) }

// ResponseHeader implements host.GatewayStream.
func (stream) ResponseHeader(key string) string {
	lent = scratch[:]
	v, _ := proxywasm.GetHttpResponseHeader(key) // "" if there is an error
	lent = nil
	return name(v)
}

// ResponseHeaders implements host.GatewayStream.
func (stream) ResponseHeaders() [][2]string {
	headers, _ := proxywasm.GetHttpResponseHeaders() // nil if there is an error
	return headers
}

// SetResponseHeader implements host.GatewayStream. The headers serve debugging only, so errors do not matter.
func (stream) SetResponseHeader(name, value string) {
	_ = proxywasm.ReplaceHttpResponseHeader(name, value)
}

// noteProperty is where the access log finds the note, as %FILTER_STATE(wasm.warmgate:PLAIN)%.
const noteProperty = "warmgate"

// SetNote implements host.GatewayStream. The gateway copies the text, and does not change it.
func (stream) SetNote(text []byte) { _ = proxywasm.SetProperty([]string{noteProperty}, text) }

// Note implements host.GatewayStream.
func (stream) Note() string { return string(propertyBytes(noteProperty)) }

// Resume implements host.GatewayStream.
func (stream) Resume() { _ = proxywasm.ResumeHttpRequest() }

// Reply implements host.GatewayStream.
func (stream) Reply(status int, headers [][2]string, body string) {
	const noGRPC = -1
	_ = proxywasm.SendHttpResponseWithDetail(uint32(status), "warmgate", headers, []byte(body), noGRPC)
}
