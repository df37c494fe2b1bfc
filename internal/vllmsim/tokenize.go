package vllmsim

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"

	"github.com/warmgate/warmgate/internal/enginesim"

	"github.com/tidwall/gjson"
)

// tokenize serves vLLM's /tokenize, by which routers learn the tokens of a prompt, and the count of Anthropic's API.
// Ids are the bytes of the tokens here.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) int {
	if r.Method != http.MethodPost {
		return writeError(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "Method Not Allowed")
	}
	body, err := readBody(w, r)
	if err != nil {
		return writeError(w, http.StatusBadRequest, "BadRequestError", err.Error())
	}
	req, err := parseRequest(body, gjson.Get(body, "messages").Exists(), true)
	if err != nil {
		return writeError(w, http.StatusBadRequest, "BadRequestError", err.Error())
	}
	if !s.serves(&req) {
		return writeNotFound(w, &req)
	}
	if r.URL.Path == countPath {
		return writeJSON(w, http.StatusOK, fmt.Appendf(nil, `{"input_tokens":%d}`, req.promptLen))
	}
	out := append([]byte(`{"count":`), strconv.Itoa(req.promptLen)...)
	out = append(out, `,"max_model_len":`...)
	out = strconv.AppendInt(out, int64(s.cfg.MaxModelLen), 10)
	out = append(out, `,"tokens":[`...)
	for i := range req.promptLen {
		var token [enginesim.BytesPerToken]byte
		copy(token[:], req.prompt[min(i*enginesim.BytesPerToken, len(req.prompt)):])
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendUint(out, uint64(binary.LittleEndian.Uint32(token[:])), 10)
	}
	return writeJSON(w, http.StatusOK, append(out, `],"token_strs":null}`...))
}
