package vllmsim

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// byteOrderMark may come before UTF-8 text.
const byteOrderMark = "\ufeff"

// readInTime is readBody within so many ms, 0 for any time. The error wraps os.ErrDeadlineExceeded when the body took
// longer.
func readInTime(w http.ResponseWriter, r *http.Request, timeoutMS float64) (string, error) {
	if timeoutMS == 0 {
		return readBody(w, r)
	}
	control := http.NewResponseController(w)
	timeout := time.Duration(timeoutMS * float64(time.Millisecond))
	if err := control.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return "", err
	}
	body, err := readBody(w, r)
	if err != nil {
		return "", err
	}
	return body, control.SetReadDeadline(time.Time{})
}

// statusWanted returns the failure that a body orders with its key sim_status, 400 to 599, or 0. The body need not be
// valid JSON otherwise: engines fail on some that are not.
func statusWanted(body string) int {
	if !strings.Contains(body, `"sim_status"`) {
		return 0
	}
	if status := gjson.Get(body, "sim_status").Int(); status >= 400 && status <= 599 {
		return int(status)
	}
	return 0
}

// lenient returns valid JSON for a body that only Python accepts.
func lenient(body string) string {
	return strings.NewReplacer(":NaN", ":null", ": NaN", ": null").Replace(strings.TrimPrefix(body, byteOrderMark))
}

// maxBody is the longest body a completion may have.
const maxBody = 64 << 20

// copyBuffers are the buffers bodies pass through, *[]byte each.
var copyBuffers = sync.Pool{New: func() any {
	b := make([]byte, 32<<10)
	return &b
}}

// readBody returns the request body as a string.
func readBody(w http.ResponseWriter, r *http.Request) (string, error) {
	var b strings.Builder
	if n := r.ContentLength; n > 0 {
		b.Grow(int(min(n, maxBody)))
	}
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	_, err := io.CopyBuffer(&b, http.MaxBytesReader(w, r.Body, maxBody), *buf)
	return b.String(), err
}
