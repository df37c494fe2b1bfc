package higresshost

// iteration is how far one direction of a stream is stopped at the plugin.
type iteration int

const (
	iterating  iteration = iota
	stopSingle           // the plugin stopped, but its body and trailer callbacks still run
	stopAll              // no callback runs until the stream is continued
)

// half is one direction of a stream at the plugin: the filter manager's rules for one filter.
type half struct {
	s         *Stream
	names     callbackNames
	next      sink
	limit     int // of the buffer, in bytes
	onTooLong localReply

	state        iteration
	passed       bool // the headers went on to the next filter
	ended        bool // the sender has finished
	aborted      bool // a local reply was sent: nothing more is passed on
	headers      Headers
	trailers     Headers
	hasTrailers  bool
	buffer       []byte
	hasBuffer    bool
	buffering    bool // the last body callback returned stop and buffer
	backpressure bool // the buffer is above its limit and the sender was paused

	frame           []byte
	frameVisible    bool
	headersVisible  bool
	trailersVisible bool
}

type callbackNames struct{ headers, body, trailers string }

// sink is what comes after the plugin: the router for requests, the client for responses.
type sink interface {
	headers(end bool)
	data(b []byte, end bool)
	trailers()
}

func (h *half) closed() bool { return h.aborted || h.s.ended }

func (h *half) call(name string, args ...uint64) (result uint64, stopped bool) {
	if h.s.bypass {
		return 0, false
	}
	return h.s.root.vm.callback(h.s.id, name, args...)
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func (h *half) onHeaders(headers Headers, end bool) {
	h.headers, h.headersVisible, h.ended = headers, true, end
	result, stopped := h.call(h.names.headers, uint64(len(headers)), flag(end))
	if h.closed() {
		return
	}
	switch {
	case stopped || result > headersStopWatermark:
		h.state = stopAll
	case result == headersStopIteration && h.s.stopIterationAllowed():
		h.state = stopSingle
	case result == headersStopIteration || result == headersStopBuffer || result == headersStopWatermark:
		h.state = stopAll
	default: // continue; Envoy treats "continue and end stream" from a plugin like it
		h.headersVisible = false
		h.forwardHeaders(end)
	}
}

func (h *half) forwardHeaders(end bool) {
	if !h.passed {
		h.passed = true
		h.next.headers(end)
	}
}

func (h *half) onData(data []byte, end bool) {
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
func (h *half) iterateData(data []byte, end bool) {
	if h.buffering && !h.s.gw.opts.Profile.staleBuffer() {
		h.hold(data, false)
		data = nil
		if h.closed() {
			return
		}
	}
	h.frame, h.frameVisible = data, true
	visible, _ := h.visibleBody()
	result, stopped := h.call(h.names.body, uint64(len(visible)), flag(end))
	if h.closed() {
		return
	}
	data, h.frame = h.frame, nil
	h.buffering = result == dataStopBuffer && !stopped
	h.frameVisible = h.buffering
	switch {
	case stopped || result >= dataStopNoBuffer:
		h.state = stopSingle
		h.hasBuffer = h.hasBuffer || (h.ended && !h.hasTrailers)
	case result == dataStopBuffer || result == dataStopWatermark:
		h.state = stopSingle
		h.hold(data, result == dataStopWatermark)
	case h.state == stopSingle:
		h.keep(data)
		h.continueIteration()
	default:
		h.next.data(data, end)
	}
}

func (h *half) keep(data []byte) {
	h.buffer = append(h.buffer, data...)
	h.hasBuffer = true
}

// hold adds to the buffer. Above the limit the sender is paused, where the plugin or a full stop requires it, and
// otherwise the stream ends with an error.
func (h *half) hold(data []byte, watermark bool) {
	h.keep(data)
	if len(h.buffer) <= h.limit {
		return
	}
	if watermark {
		h.backpressure = true
		return
	}
	h.s.sendLocalReply(h.onTooLong)
}

func (h *half) onTrailers(trailers Headers) {
	if h.closed() {
		return
	}
	h.trailers, h.hasTrailers, h.ended = trailers, true, true
	if h.state != stopAll {
		h.iterateTrailers()
	}
}

func (h *half) iterateTrailers() {
	h.trailersVisible = true
	result, stopped := h.call(h.names.trailers, uint64(len(h.trailers)))
	switch {
	case h.closed():
	case stopped || result != 0:
		h.state = stopSingle
	case h.state == stopSingle:
		h.trailersVisible = false
		h.continueIteration()
	default:
		h.trailersVisible = false
		h.next.trailers()
	}
}

// requestContinue is continue_stream: it takes effect when the guest has returned.
func (h *half) requestContinue() {
	h.s.request.hide()
	v := h.s.root.vm
	v.after = append(v.after, func() {
		switch {
		case h.s.ended:
			h.s.gw.violate("%s continued after its end", h.s)
		case h.state == iterating:
			h.s.gw.violate("%s continued while it was not paused", h.s)
		default:
			h.continueIteration()
		}
	})
}

// hide makes the maps and the buffer inaccessible to the guest, as continuing does.
func (h *half) hide() {
	h.headersVisible, h.trailersVisible, h.frameVisible, h.buffering = false, false, false, false
}

// continueIteration passes on what the plugin held. After a full stop the plugin's own body and trailer callbacks run
// first; after a single stop they have run already.
func (h *half) continueIteration() {
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

// visibleBody returns what the guest may read as the body now.
func (h *half) visibleBody() ([]byte, bool) {
	switch {
	case h.buffering:
		return h.buffer, true
	case h.frameVisible:
		return h.frame, true
	}
	return nil, false
}
