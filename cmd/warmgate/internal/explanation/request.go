// Package explanation reads the request that warmgate explain is asked about, and prints what would become of it.
package explanation

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/warmgate/warmgate/lb/prompt"
)

// Request is a request to a gateway.
type Request struct {
	Method, Path string
	Authority    string      // "" for that of the gateway
	Headers      [][2]string // the others, names in lower case
	Body         []byte
}

// Read reads a request: an HTTP message, or the body alone, of JSON. A path that is given replaces that of the message;
// without either it is the one of the API that the body has the form of.
func Read(text []byte, path string) (*Request, error) {
	body := bytes.TrimSpace(text)
	switch {
	case len(body) == 0:
		return nil, errors.New("no request on the standard input")
	case body[0] != '{':
		return readMessage(text, path)
	}
	r := &Request{
		Method: http.MethodPost, Path: path, Body: body,
		Headers: [][2]string{{"content-type", "application/json"}},
	}
	if path == "" {
		r.Path = pathOf(body)
	}
	return r, nil
}

// readMessage reads an HTTP message. Lines may end without a carriage return, and a body without a length is all of the
// rest.
func readMessage(text []byte, path string) (*Request, error) {
	head, body, _ := strings.Cut(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n\n")
	if first, _, _ := strings.Cut(head, "\n"); !strings.Contains(first, " HTTP/") {
		return nil, errors.New("want an HTTP message, which begins like POST /v1/chat/completions HTTP/1.1, " +
			"or a body of JSON")
	}
	message := strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n"
	in, err := http.ReadRequest(bufio.NewReader(strings.NewReader(message)))
	if err != nil {
		return nil, fmt.Errorf("the request is no HTTP message: %w", err)
	}
	r := &Request{Method: in.Method, Path: in.RequestURI, Authority: in.Host, Body: []byte(body)}
	if path != "" {
		r.Path = path
	}
	if i := bytes.Index(text, []byte("\r\n\r\n")); i >= 0 {
		r.Body = text[i+4:]
	}
	for _, canonical := range slices.Sorted(maps.Keys(in.Header)) {
		for _, v := range in.Header[canonical] {
			switch name := strings.ToLower(canonical); name {
			case "content-length", "connection":
			case "expect": // Envoy answers it with 100 Continue before plugins see it, unless proxy_100_continue is set
			default:
				r.Headers = append(r.Headers, [2]string{name, v})
			}
		}
	}
	return r, nil
}

// paths are where bodies of the APIs are sent.
var paths = map[prompt.API]string{
	prompt.Completions: "/v1/completions", prompt.Responses: "/v1/responses", prompt.Embeddings: "/v1/embeddings",
	prompt.Rerank: "/v1/rerank", prompt.Anthropic: "/v1/messages", prompt.SGLang: "/generate", prompt.TGI: "/generate",
	prompt.Gemini: "/v1beta/models/model:generateContent",
}

func pathOf(body []byte) string {
	info, err := prompt.Scan(body, true)
	if path, ok := paths[info.API]; ok && err == nil {
		return path
	}
	return "/v1/chat/completions"
}

// All returns all headers as a gateway has them.
func (r *Request) All() [][2]string {
	return append([][2]string{
		{":method", r.Method}, {":path", r.Path}, {":authority", r.Authority}, {":scheme", "http"},
	}, r.Headers...)
}

// To returns the request as a call to a gateway that explains it, at the URL where the gateway shows what it knows; one
// without a path is that of the documents.
func (r *Request) To(inspect, token string) (*http.Request, error) {
	at, err := url.Parse(inspect)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" || at.RawQuery != "" {
		return nil, errors.New("want a URL like http://127.0.0.1:10000/warmgate/inspect")
	}
	if at.Path = strings.TrimSuffix(at.Path, "/"); at.Path == "" {
		at.Path = "/warmgate/inspect"
	}
	call, err := http.NewRequest(http.MethodPost, at.String()+"/explain"+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	for _, h := range r.Headers {
		call.Header.Add(h[0], h[1])
	}
	call.Header.Set("Authorization", "Bearer "+token)
	if r.Authority != "" {
		call.Host = r.Authority
	}
	return call, nil
}

// Answer reads what a gateway has answered to that call.
func Answer(status int, body io.Reader) ([]byte, error) {
	const most = 4 << 20
	text, err := io.ReadAll(io.LimitReader(body, most))
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusOK:
		return text, nil
	case status == http.StatusUnauthorized:
		return nil, errors.New("it refuses the token: --token-file is for the one of lb_config.inspect.token")
	case status == http.StatusNotFound && bytes.HasPrefix(text, []byte(`{"error":"no such path`)):
		return nil, errors.New("this version of the plugin does not explain requests")
	}
	return nil, fmt.Errorf("it answers %d: nothing is shown at this path; lb_config.inspect switches that on", status)
}
