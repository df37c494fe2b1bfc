package main

// stream is the part of a core.GatewayStream that is the same on both gateways.
type stream struct{}

// property returns a property of the request, or of the gateway, "" when there is none. The parts of a path are divided
// by zeros.
func property(path string) string { return name(propertyBytes(path)) }

// propertyBytes does so without a string: the bytes are valid until the next host call.
func propertyBytes(path string) []byte {
	lend(scratch[:])
	return fetched(proxyGetProperty(path, dataAt, sizeAt))
}

const (
	maxNames      = 1024 // that are remembered
	maxNameLength = 64
)

var names = map[string]string{}

// name returns b as a string. Requests have the same clusters, routes, endpoints and statuses again and again: these do
// not need a new string each time.
func name(b []byte) string {
	s, ok := names[string(b)]
	if ok {
		return s
	}
	s = string(b)
	if len(s) > maxNameLength {
		return s
	}
	if len(names) >= maxNames { // clients can make some of them
		clear(names)
	}
	names[s] = s
	return s
}

// RequestHeaders implements core.GatewayStream.
func (stream) RequestHeaders() [][2]string { return allHeaders(requestHeaders) }

// bodyMemory is lent for bodies of requests.
var bodyMemory []byte

// maxBodyMemory is how much of it is kept: the memory of a VM never shrinks.
const maxBodyMemory = 1 << 20

// RequestBody implements core.GatewayStream.
func (stream) RequestBody(from, max int) []byte {
	b := buffer(requestBody, from, max, bodyMemory)
	bodyMemory = keepMemory(bodyMemory, b, maxBodyMemory)
	return b
}

// ResponseBody implements core.GatewayStream.
func (stream) ResponseBody(from, max int) []byte { return buffer(responseBody, from, max, scratch[:]) }

// The buffers, as host calls number them.
const (
	requestBody   = 0
	responseBody  = 1
	callBody      = 4 // of the answer to a call that the plugin has made
	configuration = 7
	redisAnswer   = 9
)

// buffer returns at most max bytes of a buffer, from a place in it, in memory if they fit there. nil is for memory of
// their own.
func buffer(kind uint32, from, max int, memory []byte) []byte {
	lend(memory)
	return fetched(proxyGetBuffer(kind, int32(from), int32(max), dataAt, sizeAt))
}

// Client implements core.GatewayStream.
func (stream) Client() string { return string(propertyBytes("source\x00address")) }

// ServedBy implements core.GatewayStream.
func (stream) ServedBy() string { return property("upstream\x00address") }

// Details implements core.GatewayStream.
func (stream) Details() string { return property("response\x00code_details") }

// SetRequestHeader implements core.GatewayStream.
func (stream) SetRequestHeader(name, value string) { proxyReplaceHeader(requestHeaders, name, value) }

// RemoveRequestHeader implements core.GatewayStream.
func (stream) RemoveRequestHeader(name string) { proxyRemoveHeader(requestHeaders, name) }

// SetCluster implements core.GatewayStream. The gateway selects the route again once a request header has changed: both
// do for a module of the ABI that they are built for.
func (s stream) SetCluster(header, cluster string) {
	if cluster == "" {
		s.RemoveRequestHeader(header)
		return
	}
	s.SetRequestHeader(header, cluster)
}

// RemoveResponseHeader implements core.GatewayStream.
func (stream) RemoveResponseHeader(name string) { proxyRemoveHeader(responseHeaders, name) }

// ResponseHeader implements core.GatewayStream.
func (stream) ResponseHeader(key string) string { return name(header(responseHeaders, key)) }

// ResponseHeaders implements core.GatewayStream.
func (stream) ResponseHeaders() [][2]string { return allHeaders(responseHeaders) }

// SetResponseHeader implements core.GatewayStream. The headers serve debugging only, so errors do not matter.
func (stream) SetResponseHeader(name, value string) { proxyReplaceHeader(responseHeaders, name, value) }

// noteProperty is where the access log finds the note, as %FILTER_STATE(wasm.warmgate:PLAIN)%.
const noteProperty = "warmgate"

// SetNote implements core.GatewayStream.
func (stream) SetNote(text string) { proxySetProperty(noteProperty, text) }

// Note implements core.GatewayStream.
func (stream) Note() string { return string(propertyBytes(noteProperty)) }

// Resume implements core.GatewayStream.
func (stream) Resume() {
	const request = 0
	proxyContinueStream(request)
}

// Reply implements core.GatewayStream.
func (stream) Reply(status int, headers [][2]string, body string) {
	const noGRPC = -1
	proxySendResponse(uint32(status), "warmgate", body, packPairs(headers), noGRPC)
}
