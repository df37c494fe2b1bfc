package higresshost

import "github.com/warmgate/warmgate/e2e/fakehost"

// headersOf returns the header map that the guest may read and whether it may write it. Outside of the callbacks that
// show a map, and after the stream was continued, there is none.
func (v *vm) headersOf(kind uint32) (h *fakehost.Headers, writable bool) {
	r, s := v.context()
	switch kind {
	case mapCallHeaders:
		if r != nil && r.httpReply != nil {
			return &r.httpReply.replyHeaders, false
		}
	case mapCallTrailers:
		if r != nil && r.httpReply != nil {
			return &fakehost.Headers{}, false
		}
	case mapRequestHeaders, mapRequestTrailers, mapResponseHeaders, mapResponseTrailers:
		if s != nil {
			return s.headerMap(kind)
		}
	}
	return nil, false
}

// write runs change on a writable header map. Changed headers of the request make Envoy choose the route again.
func (v *vm) write(kind uint32, change func(h *fakehost.Headers)) status {
	h, writable := v.headersOf(kind)
	if h == nil || !writable {
		return statusBadArgument
	}
	change(h)
	if _, s := v.context(); kind == mapRequestHeaders {
		if s.clearRoute {
			s.routeCleared = true
			s.SelectCluster()
		}
	}
	return statusOK
}

var headerCalls = []hostCall{
	{name: "get_header_map_value", sig: "iiiii", fn: func(v *vm, a args) status {
		name := a.str(v, 1)
		h, _ := v.headersOf(a.u32(0))
		if h == nil {
			return statusBadArgument
		}
		value, ok := h.Lookup(name)
		if !ok {
			return statusNotFound
		}
		return a.give(v, 3, []byte(value))
	}},
	{name: "replace_header_map_value", sig: "iiiii", fn: func(v *vm, a args) status {
		name, value := a.str(v, 1), a.str(v, 3)
		return v.write(a.u32(0), func(h *fakehost.Headers) { h.Set(name, value) })
	}},
	{name: "remove_header_map_value", sig: "iii", fn: func(v *vm, a args) status {
		name := a.str(v, 1)
		return v.write(a.u32(0), func(h *fakehost.Headers) { h.Del(name) })
	}},
	{name: "get_header_map_pairs", sig: "iii", fn: func(v *vm, a args) status {
		h, _ := v.headersOf(a.u32(0))
		if h == nil || len(*h) == 0 {
			return a.give(v, 1, nil)
		}
		return a.give(v, 1, marshalPairs(*h))
	}},
}

// bufferOf returns the bytes that a guest may read, or nil and false if it may not now.
func (v *vm) bufferOf(kind uint32) ([]byte, bool) {
	r, s := v.context()
	switch {
	case r == nil:
		return nil, false
	case kind == bufferPluginConfig:
		return []byte(r.config), true
	case kind == bufferVMConfig:
		return nil, true
	case kind == bufferHTTPCallBody && r.httpReply != nil:
		return r.httpReply.replyBody, true
	case kind == bufferRedisReply && r.redisReply != nil:
		return r.redisReply, true
	case kind == bufferRequestBody && s != nil:
		return s.Request.Body()
	case kind == bufferResponseBody && s != nil:
		return s.Response.Body()
	}
	return nil, false
}

// slice cuts max bytes from start, as far as there are any.
func slice(b []byte, start, max uint32) []byte {
	if uint64(start) >= uint64(len(b)) {
		return nil
	}
	b = b[start:]
	return b[:min(uint64(max), uint64(len(b)))]
}

var bufferCalls = []hostCall{
	{name: "get_buffer_bytes", sig: "iiiii", fn: func(v *vm, a args) status {
		b, ok := v.bufferOf(a.u32(0))
		if !ok {
			return statusNotFound
		}
		return a.give(v, 3, slice(b, a.u32(1), a.u32(2)))
	}},
}

const (
	streamRequest    = 0
	streamResponse   = 1
	streamDownstream = 2
	streamUpstream   = 3
)

// proceed is continue_stream: it takes effect when the guest has returned.
func (v *vm) proceed(h *fakehost.Half) {
	h.Hide()
	v.after = append(v.after, h.Continue)
}

var streamCalls = []hostCall{
	{name: "continue_stream", sig: "i", fn: func(v *vm, a args) status {
		r, s := v.context()
		if s == nil {
			v.gw.violate("continue_stream in plugin context %d", r.ctx)
			return statusOK
		}
		switch a.u32(0) {
		case streamRequest:
			v.proceed(s.Request)
		case streamResponse:
			v.proceed(s.Response)
		default:
			return statusBadArgument
		}
		return statusOK
	}},
	{name: "send_local_response", sig: "iiiiiiii", fn: func(v *vm, a args) status {
		_, s := v.context()
		headers, err := unmarshalPairs(a.bytes(v, 5))
		if err != nil {
			return statusBadArgument
		}
		details, body := a.str(v, 1), a.bytes(v, 3)
		v.stopIteration = true
		if s == nil {
			v.gw.violate("send_local_response in a plugin context")
			return statusOK
		}
		reply := fakehost.Reply{Code: int(a.u32(0)), Details: details, Headers: headers, Body: body}
		v.after = append(v.after, func() { s.Reply(reply) })
		return statusOK
	}},
}
