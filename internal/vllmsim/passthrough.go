package vllmsim

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// websocketGUID is the constant of RFC 6455 that proves the server understood the handshake.
const websocketGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// maxGRPCMessage bounds the message an echo holds at once.
const maxGRPCMessage = 16 << 20

// echoUpgrade accepts any HTTP/1.1 upgrade and sends every byte back as it came. A WebSocket
// client gets its own masked frames.
func (s *Server) echoUpgrade(w http.ResponseWriter, r *http.Request) int {
	proto := r.Header.Get("Upgrade")
	if proto == "" {
		return writeError(w, http.StatusUpgradeRequired, "BadRequestError", "an Upgrade header is needed")
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return writeError(w, http.StatusBadRequest, "BadRequestError", "an upgrade needs HTTP/1.1")
	}
	defer conn.Close()
	defer context.AfterFunc(s.ctx, func() { _ = conn.Close() })()
	var head strings.Builder
	fmt.Fprintf(&head, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: %s\r\nConnection: Upgrade\r\nx-sim-id: %s\r\n",
		proto, s.index)
	if key := r.Header.Get("Sec-WebSocket-Key"); key != "" {
		sum := sha1.Sum([]byte(key + websocketGUID))
		fmt.Fprintf(&head, "Sec-WebSocket-Accept: %s\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	}
	head.WriteString("\r\n")
	if _, err := conn.Write([]byte(head.String())); err != nil {
		return statusGone
	}
	// Bytes that came with the handshake wait in rw's reader. The copy ends when either side
	// closes, which is how an echo ends.
	_, _ = io.Copy(conn, rw.Reader)
	return http.StatusSwitchingProtocols
}

// echoGRPC answers each message of a gRPC call with itself.
func (s *Server) echoGRPC(w http.ResponseWriter, r *http.Request) int {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		return writeError(w, http.StatusUnsupportedMediaType, "BadRequestError", "not a gRPC call")
	}
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	rc := http.NewResponseController(w)
	var head [5]byte // compressed flag, length
	status := "0"
	for {
		if _, err := io.ReadFull(r.Body, head[:]); err != nil {
			break // io.EOF: the client has sent all
		}
		n := int64(binary.BigEndian.Uint32(head[1:]))
		if n > maxGRPCMessage {
			status = "8" // RESOURCE_EXHAUSTED
			break
		}
		message := make([]byte, len(head)+int(n))
		copy(message, head[:])
		if _, err := io.ReadFull(r.Body, message[len(head):]); err != nil {
			status = "13" // INTERNAL: the message was cut off
			break
		}
		if _, err := w.Write(message); err != nil {
			return statusGone
		}
		_ = rc.Flush()
	}
	w.Header().Set("Grpc-Status", status)
	if r.Context().Err() != nil {
		return statusGone
	}
	return http.StatusOK
}

// echoDigest reads a body of any length without holding it and returns length and SHA-256.
func (s *Server) echoDigest(w http.ResponseWriter, r *http.Request) int {
	sum := sha256.New()
	n, err := io.Copy(sum, r.Body)
	if err != nil {
		return statusGone
	}
	return writeJSON(w, http.StatusOK, fmt.Appendf(nil, `{"method":%q,"length":%d,"sha256":"%s"}`,
		r.Method, n, hex.EncodeToString(sum.Sum(nil))))
}
