package loadgen

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/warmgate/warmgate/e2e/wait"
)

// Upload is how a request body travels. The zero value sends it whole, with a Content-Length.
type Upload struct {
	Chunked bool          // no Content-Length: chunked transfer encoding
	Pieces  int           // written in that many pieces; 0 and 1 mean one
	Pause   time.Duration // wait between two pieces
}

// LeavePoint names a state of a request in which a client may disappear.
type LeavePoint string

// The points at which a client can leave.
const (
	Stay            LeavePoint = ""
	MidUpload       LeavePoint = "mid_upload"        // half of the body has been sent
	BeforeFirstByte LeavePoint = "before_first_byte" // all is sent, no byte of an answer has been read
	AfterHeaders    LeavePoint = "after_headers"     // response headers have been read
	MidStream       LeavePoint = "mid_stream"        // Leave.Events content events have been read
)

// Leave makes a client disappear: its connection is closed at the given point.
type Leave struct {
	At     LeavePoint
	After  time.Duration // additional wait once the point is reached
	Events int           // MidStream only: content events to read first; 0 means 1
}

// bodyReader returns the reader for a request's body, and its Content-Length or -1 for chunked. When the client is to
// leave in the middle of the upload, leave is called once half of the body has been taken, and the rest never comes.
func (q *Request) bodyReader(ctx context.Context, leave func()) (io.Reader, int64) {
	length := int64(len(q.Body))
	if q.Upload.Chunked {
		length = -1
	}
	if q.Upload.Pieces <= 1 && q.Leave.At != MidUpload {
		if q.Upload.Chunked {
			// hides Len, or net/http would send a Content-Length
			return struct{ io.Reader }{bytes.NewReader(q.Body)}, length
		}
		return bytes.NewReader(q.Body), length
	}
	p := &pieceReader{ctx: ctx, rest: q.Body, size: len(q.Body), pause: q.Upload.Pause}
	if q.Upload.Pieces > 1 {
		p.size = (len(q.Body) + q.Upload.Pieces - 1) / q.Upload.Pieces
	}
	if q.Leave.At == MidUpload {
		p.rest = q.Body[:len(q.Body)/2]
		p.size = max(1, min(p.size, len(p.rest)))
		p.leave, p.after = leave, q.Leave.After
	}
	return p, length
}

// pieceReader hands out rest in pieces of size bytes with a pause before each but the first.
type pieceReader struct {
	ctx     context.Context
	rest    []byte
	size    int
	pause   time.Duration
	started bool
	inPiece int           // bytes of the current piece not yet read
	leave   func()        // called at the end instead of reporting io.EOF
	after   time.Duration // wait before leave
}

func (p *pieceReader) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, p.end()
	}
	if p.inPiece == 0 {
		if p.started && wait.For(p.ctx, p.pause) != nil {
			return 0, p.ctx.Err()
		}
		p.started = true
		p.inPiece = min(p.size, len(p.rest))
	}
	n := copy(b, p.rest[:p.inPiece])
	p.rest = p.rest[n:]
	p.inPiece -= n
	return n, nil
}

func (p *pieceReader) end() error {
	if p.leave == nil {
		return io.EOF
	}
	_ = wait.For(p.ctx, p.after)
	p.leave()
	return context.Canceled
}
