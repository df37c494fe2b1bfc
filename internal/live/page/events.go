package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/live"
)

const (
	maxViewers   = 32
	keptTime     = 15 * time.Minute // of the past, for the plots
	maxPastBytes = 8 << 20
	pulse        = 15 * time.Second // at which a viewer is sent something, if only to see whether it is still there
	writeTimeout = 10 * time.Second // for each part of what is sent
	partBytes    = 64 << 10
)

// viewer is given frames, as JSON. It has room for one: who is slower than the frames misses some.
type viewer chan []byte

// past is the frames before the last one, as JSON, without what plots do not show.
type past struct {
	frames []pastFrame
	bytes  int
}

type pastFrame struct {
	atMS int64
	text []byte
}

// Show shows all viewers the next frame. It does not wait for them. It fails if JSON has no form of a number in it.
func (s *Server) Show(frame live.Frame) error {
	text, err := json.Marshal(frame)
	if err != nil {
		return err
	}
	short, err := json.Marshal(forPlots(frame))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = text
	s.past.add(pastFrame{frame.AtMS, short})
	for v := range s.viewers {
		select {
		case <-v: // a frame that it has not taken yet
		default:
		}
		v <- text
	}
	return nil
}

// Close ends what is sent to viewers, for good.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
}

func (p *past) add(f pastFrame) {
	p.frames = append(p.frames, f)
	p.bytes += len(f.text)
	for len(p.frames) > 1 && (p.bytes > maxPastBytes || f.atMS-p.frames[0].atMS > keptTime.Milliseconds()) {
		p.bytes -= len(p.frames[0].text)
		p.frames = p.frames[1:]
	}
}

// forPlots returns what the plots show of a frame.
func forPlots(frame live.Frame) live.Frame {
	short := live.Frame{AtMS: frame.AtMS, Note: frame.Note}
	for _, g := range frame.Gateways {
		gateway := live.Gateway{Name: g.Name, Up: g.Up}
		for _, c := range g.Clusters {
			c.Endpoints, c.Classes = nil, nil
			gateway.Clusters = append(gateway.Clusters, c)
		}
		short.Gateways = append(short.Gateways, gateway)
	}
	return short
}

// join adds a viewer, and returns what it is sent first. It returns nil if there are too many.
func (s *Server) join() (v viewer, first []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.viewers) >= maxViewers {
		return nil, nil
	}
	v = make(viewer, 1)
	s.viewers[v] = true
	if s.last != nil {
		v <- s.last
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: facts\ndata: %s\n\nevent: past\ndata: [", s.facts)
	for i, f := range s.past.frames[:max(0, len(s.past.frames)-1)] { // the last comes in full
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(f.text)
	}
	b.WriteString("]\n\n")
	return v, b.Bytes()
}

func (s *Server) leave(v viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.viewers, v)
}

// serveEvents sends a viewer the facts, the past, and then frames as they come.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	v, first := s.join()
	if v == nil {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("%d viewers are the most.", maxViewers), http.StatusServiceUnavailable)
		return
	}
	defer s.leave(v)
	ticks := time.NewTicker(pulse)
	defer ticks.Stop()
	control := http.NewResponseController(w)
	for next := first; ; {
		for part := range slices.Chunk(next, partBytes) {
			// Not all kinds of connection have a deadline; those of a server do.
			_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
			if _, err := w.Write(part); err != nil {
				return
			}
		}
		if err := control.Flush(); err != nil {
			return
		}
		select {
		case frame := <-v:
			next = fmt.Appendf(nil, "event: frame\ndata: %s\n\n", frame)
		case <-ticks.C:
			next = []byte(": still here\n\n")
		case <-r.Context().Done():
			return
		case <-s.closed:
			return
		}
	}
}
