package vllmsim

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"
)

// writeJSON sends a reply and returns its status.
func writeJSON(w http.ResponseWriter, status int, body []byte) int {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// A client that has left is noticed through the request's context.
	_, _ = w.Write(body)
	return status
}

// writeError sends an error as vLLM spells it.
func writeError(w http.ResponseWriter, status int, kind, message string) int {
	type detail struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    int     `json:"code"`
	}
	body, err := json.Marshal(map[string]detail{"error": {Message: message, Type: kind, Code: status}})
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return writeJSON(w, status, body)
}

// statusGone is counted for a request whose client left before the end of the answer.
const statusGone = 499

// resetConnection sends a TCP reset, or RST_STREAM on HTTP/2.
func resetConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		// Without lingering, closing throws away what is unsent and resets.
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func writeNotFound(w http.ResponseWriter, r *completionRequest) int {
	return writeError(w, http.StatusNotFound, "NotFoundError",
		fmt.Sprintf("The model `%s` does not exist.", gjson.Parse(r.model).Str))
}
