package fakehost

// Callback is a callback of a plugin for a stream.
type Callback int

// The callbacks.
const (
	RequestHeaders Callback = iota
	RequestBody
	RequestTrailers
	ResponseHeaders
	ResponseBody
	ResponseTrailers
	Log
	Done
	Delete
)

// Filter is the plugin, the only filter of a stream.
type Filter interface {
	// Call runs a callback. count is how many headers or trailers there are, or the bytes that the plugin may read; end
	// says that nothing follows. Call returns what the plugin answers, as Proxy-Wasm numbers it, and whether it has
	// answered the request itself meanwhile.
	Call(c Callback, count int, end bool) (answer int, replied bool)
}

// Answers of the callbacks for headers and for bodies. To trailers, 0 lets them pass.
const (
	HeadersContinue      = 0
	HeadersStopIteration = 1
	HeadersEndStream     = 2
	HeadersStopBuffer    = 3
	HeadersStopWatermark = 4

	DataContinue      = 0
	DataStopBuffer    = 1
	DataStopWatermark = 2
	DataStopNoBuffer  = 3
)

// iteration is how far one direction of a stream is stopped at the plugin.
type iteration int

const (
	iterating  iteration = iota
	stopSingle           // the plugin stopped, but its body and trailer callbacks still run
	stopAll              // no callback runs until the stream is continued
)

// Half is one direction of a stream at the plugin: the filter manager's rules for one filter.
type Half struct {
	Headers, Trailers           Headers
	ShowsHeaders, ShowsTrailers bool // to the plugin
	Limit                       int  // of the buffer, in bytes

	s         *Stream
	on        [3]Callback // for headers, body, trailers
	next      sink
	onTooLong Reply

	state        iteration
	passed       bool // the headers went on to the next filter
	ended        bool // the sender has finished
	aborted      bool // a local reply was sent: nothing more is passed on
	hasTrailers  bool
	buffer       []byte
	hasBuffer    bool
	buffering    bool // the last body callback returned stop and buffer
	backpressure bool // the buffer is above its limit and the sender was paused

	frame      []byte
	showsFrame bool
}

// sink is what comes after the plugin: the router for requests, the client for responses.
type sink interface {
	headers(end bool)
	data(b []byte, end bool)
	trailers()
}

// Abort lets nothing more pass: the gateway answers itself.
func (h *Half) Abort() { h.aborted = true }

func (h *Half) closed() bool { return h.aborted || h.s.Ended }

func (h *Half) call(c Callback, count int, end bool) (answer int, replied bool) {
	if h.s.Filter == nil {
		return 0, false
	}
	return h.s.Filter.Call(c, count, end)
}

func (h *Half) onHeaders(headers Headers, end bool) {
	h.Headers, h.ShowsHeaders, h.ended = headers, true, end
	result, stopped := h.call(h.on[0], len(headers), end)
	if h.closed() {
		return
	}
	switch {
	case stopped || result > HeadersStopWatermark:
		h.state = stopAll
	case result == HeadersStopIteration && h.s.StopIteration:
		h.state = stopSingle
	case result == HeadersStopIteration || result == HeadersStopBuffer || result == HeadersStopWatermark:
		h.state = stopAll
	default: // continue; Envoy treats "continue and end stream" from a plugin like it
		h.ShowsHeaders = false
		h.forwardHeaders(end)
	}
}

func (h *Half) forwardHeaders(end bool) {
	if !h.passed {
		h.passed = true
		h.next.headers(end)
	}
}

func (h *Half) onData(data []byte, end bool) {
	if h.closed() {
		return
	}
	h.ended = h.ended || end
	if h.state == stopAll {
		h.hold(data, true)
		return
	}
	h.iterateData(data, end)
}

// iterateData runs the body callback on a frame. While the plugin buffers it sees the whole buffer; whether the frame
// itself is already part of it depends on the Envoy version.
func (h *Half) iterateData(data []byte, end bool) {
	if h.buffering && !h.s.host.StaleBuffer {
		h.hold(data, false)
		data = nil
		if h.closed() {
			return
		}
	}
	h.frame, h.showsFrame = data, true
	visible, _ := h.Body()
	result, stopped := h.call(h.on[1], len(visible), end)
	if h.closed() {
		return
	}
	data, h.frame = h.frame, nil
	h.buffering = result == DataStopBuffer && !stopped
	h.showsFrame = h.buffering
	switch {
	case stopped || result >= DataStopNoBuffer:
		h.state = stopSingle
		h.hasBuffer = h.hasBuffer || (h.ended && !h.hasTrailers)
	case result == DataStopBuffer || result == DataStopWatermark:
		h.state = stopSingle
		h.hold(data, result == DataStopWatermark)
	case h.state == stopSingle:
		h.keep(data)
		h.continueIteration()
	default:
		h.next.data(data, end)
	}
}

func (h *Half) keep(data []byte) {
	h.buffer = append(h.buffer, data...)
	h.hasBuffer = true
}

// hold adds to the buffer. Above the limit the sender is paused, where the plugin or a full stop requires it, and
// otherwise the stream ends with an error.
func (h *Half) hold(data []byte, watermark bool) {
	h.keep(data)
	if len(h.buffer) <= h.Limit {
		return
	}
	if watermark {
		h.backpressure = true
		return
	}
	h.s.Reply(h.onTooLong)
}

func (h *Half) onTrailers(trailers Headers) {
	if h.closed() {
		return
	}
	h.Trailers, h.hasTrailers, h.ended = trailers, true, true
	if h.state != stopAll {
		h.iterateTrailers()
	}
}

func (h *Half) iterateTrailers() {
	h.ShowsTrailers = true
	result, stopped := h.call(h.on[2], len(h.Trailers), true)
	switch {
	case h.closed():
	case stopped || result != 0:
		h.state = stopSingle
	case h.state == stopSingle:
		h.ShowsTrailers = false
		h.continueIteration()
	default:
		h.ShowsTrailers = false
		h.next.trailers()
	}
}

// Continue passes on what the plugin held, once its callback has returned.
func (h *Half) Continue() {
	switch {
	case h.s.Ended:
		h.s.host.Violate("%s continued after its end", h.s)
	case h.state == iterating:
		h.s.host.Violate("%s continued while it was not paused", h.s)
	default:
		h.continueIteration()
	}
}

// Hide makes the maps and the buffer inaccessible to the plugin, as continuing does.
func (h *Half) Hide() {
	h.ShowsHeaders, h.ShowsTrailers, h.showsFrame, h.buffering = false, false, false, false
}

// continueIteration passes on what the plugin held. After a full stop the plugin's own body and trailer callbacks run
// first; after a single stop they have run already.
func (h *Half) continueIteration() {
	if h.closed() {
		return
	}
	replay := h.state == stopAll
	h.state, h.backpressure = iterating, false
	h.forwardHeaders(h.ended && !h.hasBuffer && !h.hasTrailers)
	hadTrailers := h.hasTrailers
	if h.hasBuffer && !h.closed() {
		data, end := h.buffer, h.ended && !hadTrailers
		h.buffer, h.hasBuffer = nil, false
		if replay {
			h.iterateData(data, end)
		} else {
			h.next.data(data, end)
		}
	}
	if hadTrailers && !h.closed() && h.state == iterating {
		if replay {
			h.iterateTrailers()
		} else {
			h.next.trailers()
		}
	}
}

// Body returns what the plugin may read as the body now.
func (h *Half) Body() ([]byte, bool) {
	switch {
	case h.buffering:
		return h.buffer, true
	case h.showsFrame:
		return h.frame, true
	}
	return nil, false
}

// Buffering reports whether the plugin holds the body so far, and is shown all of it.
func (h *Half) Buffering() bool { return h.buffering }

// StoppedAll reports whether the plugin is called no more until it lets the headers go on.
func (h *Half) StoppedAll() bool { return h.state == stopAll }

// HasTrailers reports whether trailers have come.
func (h *Half) HasTrailers() bool { return h.hasTrailers }
