// Package page shows running gateways as a web page: live, as an [http.Handler], or a record of them, as a file. The
// page reads only. It loads nothing from elsewhere, and all that it shows of a request is what frames have.
package page

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed web
var web embed.FS

// policy lets the page run its own scripts and load its own files, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// cookie has the name under which a browser keeps that it knows the token.
const cookie = "warmgate_page"

// Facts are what a page says beside the frames.
type Facts struct {
	Title  string   `json:"title,omitempty"`  // "": Warmgate
	About  []string `json:"about,omitempty"`  // paragraphs, such as what is shown, and of which versions
	Tables []Table  `json:"tables,omitempty"` // such as results
	Texts  []Text   `json:"texts,omitempty"`  // such as configurations
}

// Table is a table with a row of headings.
type Table struct {
	Name string     `json:"name"`
	Head []string   `json:"head"`
	Rows [][]string `json:"rows"`
}

// Text is shown as it is.
type Text struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Server is the page of running gateways.
type Server struct {
	facts []byte
	token string // "": everybody on this machine may look

	mu      sync.Mutex
	last    []byte // the latest frame
	past    past
	viewers map[viewer]bool
	closed  chan struct{}
}

// New returns a page without a frame. Viewers must know the token, unless it is "": then the page answers only
// requests for localhost or an IP address, since else a site that a viewer has open could have its own name point here.
func New(facts Facts, token string) *Server {
	text, err := json.Marshal(facts)
	if err != nil {
		panic(err) // strings can be written
	}
	return &Server{facts: text, token: token, viewers: map[viewer]bool{}, closed: make(chan struct{})}
}

// ServeHTTP answers a viewer's browser.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "This page can only be read.", http.StatusMethodNotAllowed)
		return
	}
	if !s.admits(w, r) {
		return
	}
	if r.URL.Path == "/events" {
		s.serveEvents(w, r)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	text, err := web.ReadFile("web/" + name)
	if err != nil || strings.HasSuffix(r.URL.Path, "/index.html") {
		http.NotFound(w, r)
		return
	}
	h.Set("Content-Type", contentTypes[path.Ext(name)])
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
}

// contentTypes has those of the files in web, by the ends of their names.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".LICENSE": "text/plain; charset=utf-8",
}

// admits reports whether a request may be answered, or else answers it.
func (s *Server) admits(w http.ResponseWriter, r *http.Request) bool {
	if s.token == "" {
		if isHere(r.Host) {
			return true
		}
		http.Error(w, "This page answers to localhost and IP addresses alone.", http.StatusMisdirectedRequest)
		return false
	}
	if given := r.URL.Query().Get("token"); r.URL.Path == "/" && same(given, s.token) {
		// Lax, for a link in a message is a common way here. The token itself would reach all servers of the host.
		http.SetCookie(w, &http.Cookie{
			Name: cookie, Value: s.proof(), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		})
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return false
	}
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && same(bearer, s.token) {
		return true
	}
	if c, err := r.Cookie(cookie); err == nil && same(c.Value, s.proof()) {
		return true
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, "This page wants its token: open the address that was printed when it was started.",
		http.StatusUnauthorized)
	return false
}

// proof is what the cookie holds of the token.
func (s *Server) proof() string {
	sum := sha256.Sum256([]byte("warmgate page " + s.token))
	return hex.EncodeToString(sum[:])
}

// same compares two texts in a time that does not tell how much of them is alike.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// isHere reports whether the host that a request is for cannot be a name of somebody else.
func isHere(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(host, "localhost")
}
