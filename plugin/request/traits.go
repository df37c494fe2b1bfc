package request

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
)

// maxLength bounds a content-length, so that sums with it cannot overflow.
const maxLength = 1 << 40

// Traits is what a request's headers contain. They are read at most once.
type Traits struct {
	Known     bool
	Headers   [][2]string
	Authority string
	Path      string
	Length    int  // of the body by its header, in bytes, 0 if that is not known
	Opaque    bool // the body is no request to inspect: gRPC, or another protocol after an upgrade
	Encoded   bool // the body is compressed or multipart
	Multipart bool // it is multipart, and not compressed
	notJSON   bool // the body is of another type
	Awaits    bool // the body comes after 100 Continue: a gateway that sends that itself removes the header
}

// Read reads the headers, unless it has.
func (t *Traits) Read(s host.GatewayStream) {
	if t.Known {
		return
	}
	t.Known = true
	t.Headers = s.RequestHeaders()
	multipart := false
	for _, h := range t.Headers {
		switch h[0] {
		case ":authority":
			t.Authority = h[1]
		case ":path":
			t.Path = h[1]
		case ":method":
			t.Opaque = t.Opaque || h[1] == "CONNECT"
		case "upgrade":
			t.Opaque = t.Opaque || h[1] != ""
		case "expect":
			t.Awaits = t.Awaits || strings.EqualFold(h[1], "100-continue")
		case "content-length":
			if n, err := strconv.Atoi(h[1]); err == nil && n > 0 {
				t.Length = min(n, maxLength)
			}
		case "content-encoding":
			t.Encoded = t.Encoded || h[1] != "" && !strings.EqualFold(h[1], "identity")
		case "content-type":
			t.Opaque = t.Opaque || hasPrefixFold(h[1], "application/grpc")
			multipart = multipart || hasPrefixFold(h[1], "multipart/")
			t.notJSON = h[1] != "" && !strings.Contains(strings.ToLower(h[1]), "json")
		}
	}
	t.Multipart = multipart && !t.Encoded
	t.Encoded = t.Encoded || multipart
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// Header returns the value of a header of the request; those of one that is there several times are joined. The headers
// must have been read.
func (t *Traits) Header(name string) (value string) {
	for _, h := range t.Headers {
		if strings.EqualFold(h[0], name) {
			value += h[1] + ","
		}
	}
	return value
}

// Value returns the value of a header, "" if it has no name; those of one that is there several times are joined. Other
// than with Header, a header without a value is like none.
func (t *Traits) Value(name string) (value string) {
	found := false
	for _, h := range t.Headers {
		switch {
		case name == "" || !strings.EqualFold(h[0], name):
		case found:
			value += "," + h[1]
		default:
			value, found = h[1], true
		}
	}
	return value
}

// shapeOr returns which API the request is for: by the path if that names one of those whose bodies can be alike, as
// the model server decides, else by what is known of the body.
func (t *Traits) shapeOr(body prompt.API) prompt.API { return cmp.Or(t.pathShape(), body) }

// pathShape returns which API the path names, if it is one of those whose bodies can be alike.
func (t *Traits) pathShape() prompt.API {
	path, _, _ := strings.Cut(t.Path, "?")
	switch {
	case strings.HasSuffix(path, "/messages"):
		return prompt.Anthropic
	case strings.HasSuffix(path, "/chat/completions"):
		return prompt.Chat
	case strings.HasSuffix(path, "/completions"):
		return prompt.Completions
	case strings.HasSuffix(path, "/responses"):
		return prompt.Responses
	}
	return prompt.Unknown
}

// tenantID returns the same number for all requests of one tenant, 0 where no header names tenants.
func (t *Traits) tenantID(c *config.Config) uint64 {
	name := t.tenantName(c)
	if name == "" {
		return 0
	}
	return xxhash.Sum64String(name[1:]) | 1
}

// tenantName returns a text that is the same for all requests of one tenant, and begins with a mark, "" where no header
// names tenants: that of prompts, or else that of the queue.
func (t *Traits) tenantName(c *config.Config) string {
	name := c.Prefix.TenantHeader
	if name == "" && c.Queue.Enabled() {
		name = c.Queue.TenantHeader
	}
	if name == "" {
		return ""
	}
	return "=" + t.Header(name)
}
