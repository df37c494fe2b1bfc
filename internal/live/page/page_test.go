package page

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/live"
	"github.com/warmgate/warmgate/internal/state"
)

// ask returns the page's answer to a request of a browser.
func ask(s *Server, method, url string, header ...string) *http.Response {
	r := httptest.NewRequest(method, url, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func TestFiles(t *testing.T) {
	s := New(Facts{}, "")
	for path, want := range map[string]struct {
		status      int
		contentType string
	}{
		"/":                  {200, "text/html; charset=utf-8"},
		"/main.js":           {200, "text/javascript; charset=utf-8"},
		"/style.css":         {200, "text/css; charset=utf-8"},
		"/uPlot.LICENSE":     {200, "text/plain; charset=utf-8"},
		"/index.html":        {404, "text/plain; charset=utf-8"},
		"/../server.go":      {404, "text/plain; charset=utf-8"},
		"/no":                {404, "text/plain; charset=utf-8"},
		"/uPlot.iife.min.js": {200, "text/javascript; charset=utf-8"},
	} {
		got := ask(s, "GET", "http://localhost:8899"+path)
		if got.StatusCode != want.status || got.Header.Get("Content-Type") != want.contentType {
			t.Errorf("%s: %d %s", path, got.StatusCode, got.Header.Get("Content-Type"))
		}
		for name, value := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got.Header.Get(name) != value {
				t.Errorf("%s: %s is %q", path, name, got.Header.Get(name))
			}
		}
	}
}

func TestMethods(t *testing.T) {
	s := New(Facts{}, "")
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"} {
		if got := ask(s, method, "http://localhost/"); got.StatusCode != 405 || got.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d, Allow %q", method, got.StatusCode, got.Header.Get("Allow"))
		}
	}
	for _, path := range []string{"/", "/events"} {
		got := ask(s, "HEAD", "http://localhost"+path)
		if body, _ := io.ReadAll(got.Body); got.StatusCode != 200 || len(body) > 0 {
			t.Errorf("HEAD %s: %d with %d bytes", path, got.StatusCode, len(body))
		}
	}
}

// A site that has its own name resolved to this machine gets nothing.
func TestHosts(t *testing.T) {
	s := New(Facts{}, "")
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:8899": 200, "127.0.0.1:8899": 200, "[::1]:8899": 200, "[::1]": 200,
		"10.1.2.3:80": 200, "evil.example": 421, "evil.example:8899": 421, "localhost.evil.example": 421,
		"127.0.0.1.evil.example": 421,
	} {
		for _, path := range []string{"/", "/main.js", "/events"} {
			r := httptest.NewRequest("HEAD", "http://localhost"+path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s of %s: %d", path, host, w.Code)
			}
		}
	}
}

func TestToken(t *testing.T) {
	const token = "a-token-of-some-length"
	s := New(Facts{}, token)
	for _, path := range []string{"/", "/main.js", "/events", "/?token=wrong", "/?token=", "/events?token=" + token} {
		if got := ask(s, "GET", "http://gateways.example"+path); got.StatusCode != 401 || len(got.Cookies()) > 0 {
			t.Errorf("%s without the token: %d", path, got.StatusCode)
		}
	}
	for _, header := range []string{"Bearer wrong", "Bearer ", token, "Basic " + token} {
		if got := ask(s, "GET", "http://gateways.example/", "Authorization", header); got.StatusCode != 401 {
			t.Errorf("with %q: %d", header, got.StatusCode)
		}
	}
	if got := ask(s, "GET", "http://gateways.example/", "Authorization", "Bearer "+token); got.StatusCode != 200 {
		t.Errorf("with the token in a header: %d", got.StatusCode)
	}
	got := ask(s, "GET", "http://gateways.example/?token="+token)
	cookies := got.Cookies()
	if got.StatusCode != 303 || got.Header.Get("Location") != "/" || len(cookies) != 1 {
		t.Fatalf("with the token: %d to %q with cookies %v", got.StatusCode, got.Header.Get("Location"), cookies)
	}
	c := cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || strings.Contains(c.Value, token) {
		t.Errorf("cookie %v", c)
	}
	if got := ask(s, "GET", "http://gateways.example/main.js", "Cookie", c.Name+"="+c.Value); got.StatusCode != 200 {
		t.Errorf("with the cookie: %d", got.StatusCode)
	}
	if got := ask(s, "GET", "http://gateways.example/", "Cookie", c.Name+"="+token); got.StatusCode != 401 {
		t.Errorf("with another cookie: %d", got.StatusCode)
	}
}

// events reads what the server sends to a viewer: the kind and the data of each event.
type events struct {
	body  io.ReadCloser
	lines *bufio.Scanner
}

func view(t *testing.T, url string) *events {
	t.Helper()
	got, err := http.Get(url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { got.Body.Close() })
	if got.StatusCode != 200 || got.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("events: %d %s", got.StatusCode, got.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(got.Body)
	lines.Buffer(nil, 1<<24)
	return &events{got.Body, lines}
}

// next returns the next event, or "" at the end.
func (e *events) next() (kind, data string) {
	for e.lines.Scan() {
		line := e.lines.Text()
		if k, ok := strings.CutPrefix(line, "event: "); ok {
			kind = k
		}
		if d, ok := strings.CutPrefix(line, "data: "); ok {
			return kind, d
		}
	}
	return "", ""
}

// frameAt returns a frame with one gateway.
func frameAt(ms int64) live.Frame {
	return live.Frame{AtMS: ms, Note: "first\nact", Gateways: []live.Gateway{{
		Name: "a", Up: true, Decisions: []state.Decision{{ID: fmt.Sprint(ms)}},
		Clusters: []live.Cluster{{Name: "models", PerS: 3, Endpoints: []live.Endpoint{{Addr: "10.0.0.1:80"}}}},
	}}}
}

func TestEvents(t *testing.T) {
	s := New(Facts{Title: "A title"}, "")
	server := httptest.NewServer(s)
	defer server.Close()
	for ms := range int64(3) {
		if err := s.Show(frameAt(ms)); err != nil {
			t.Fatal(err)
		}
	}
	e := view(t, server.URL)
	if kind, data := e.next(); kind != "facts" || data != `{"title":"A title"}` {
		t.Errorf("first is %s %s", kind, data)
	}
	kind, data := e.next()
	var past []live.Frame
	if err := json.Unmarshal([]byte(data), &past); err != nil || kind != "past" || len(past) != 2 {
		t.Errorf("second is %s %s: %v", kind, data, err)
	}
	for _, f := range past {
		if g := f.Gateways[0]; len(g.Decisions) > 0 || g.Clusters[0].Endpoints != nil || g.Clusters[0].PerS != 3 {
			t.Errorf("of the past: %+v", f)
		}
	}
	var frame live.Frame
	if kind, data := e.next(); kind != "frame" || json.Unmarshal([]byte(data), &frame) != nil || frame.AtMS != 2 ||
		len(frame.Gateways[0].Clusters[0].Endpoints) != 1 {
		t.Errorf("third is %s %s", kind, data)
	}
	if err := s.Show(frameAt(3)); err != nil {
		t.Fatal(err)
	}
	if kind, data := e.next(); kind != "frame" || json.Unmarshal([]byte(data), &frame) != nil || frame.AtMS != 3 {
		t.Errorf("fourth is %s %s", kind, data)
	}
	s.Close()
	s.Close()
	if kind, data := e.next(); kind != "" {
		t.Errorf("after the end: %s %s", kind, data)
	}
}

// parts is a connection that counts its deadlines, and breaks when all of the first events were sent.
type parts struct {
	*httptest.ResponseRecorder
	deadlines int
}

func (p *parts) SetWriteDeadline(time.Time) error {
	p.deadlines++
	return nil
}

func (p *parts) FlushError() error { return errors.New("broken") }

// The past may be long: a slow connection has its time for each part of it.
func TestSlowConnection(t *testing.T) {
	s := New(Facts{Title: strings.Repeat("x", 3*partBytes)}, "")
	p := &parts{ResponseRecorder: httptest.NewRecorder()}
	s.ServeHTTP(p, httptest.NewRequest("GET", "http://localhost/events", nil))
	if n := p.Body.Len(); p.deadlines != 4 || n < 3*partBytes {
		t.Errorf("%d deadlines for %d bytes", p.deadlines, n)
	}
	if len(s.viewers) > 0 {
		t.Error("the viewer is still there")
	}
}

// Who does not read misses frames, and holds up nobody.
func TestSlowViewer(t *testing.T) {
	s := New(Facts{}, "")
	slow, _ := s.join()
	for ms := range int64(5) {
		if err := s.Show(frameAt(ms)); err != nil {
			t.Fatal(err)
		}
	}
	var frame live.Frame
	if err := json.Unmarshal(<-slow, &frame); err != nil || frame.AtMS != 4 {
		t.Errorf("after five frames it is given that of %d: %v", frame.AtMS, err)
	}
	if len(slow) > 0 {
		t.Error("there are more frames for it")
	}
}

func TestManyViewers(t *testing.T) {
	s := New(Facts{}, "")
	var last viewer
	for range maxViewers {
		last, _ = s.join()
	}
	got := ask(s, "GET", "http://localhost/events")
	if got.StatusCode != 503 || got.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %d", got.StatusCode)
	}
	s.leave(last)
	if v, _ := s.join(); v == nil {
		t.Error("none is let in when one has left")
	}
}

func TestPastIsBounded(t *testing.T) {
	s := New(Facts{}, "")
	for i := range int64(2000) {
		if err := s.Show(frameAt(1000 * i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.past.frames); n != 901 {
		t.Errorf("%d frames of 15 minutes", n)
	}
	long := frameAt(2_000_001)
	long.Note = strings.Repeat("x", maxPastBytes/4)
	for range 9 {
		long.AtMS++
		if err := s.Show(long); err != nil {
			t.Fatal(err)
		}
	}
	sum := 0
	for _, f := range s.past.frames {
		sum += len(f.text)
	}
	if sum > maxPastBytes || sum != s.past.bytes {
		t.Errorf("%d bytes, counted %d", sum, s.past.bytes)
	}
}

// The library is the one that its project has published as version 1.6.32.
func TestLibrary(t *testing.T) {
	for name, want := range map[string]string{
		"uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uPlot.min.css":     "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
		"uPlot.LICENSE":     "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	} {
		sum := sha256.Sum256([]byte(file(name)))
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s: sha256 %s", name, got)
		}
	}
}

func TestRecord(t *testing.T) {
	hostile := frameAt(1)
	hostile.Gateways[0].Name = `</script><img src=x onerror=alert(1)>`
	var b strings.Builder
	facts := Facts{Title: "A <b>", Texts: []Text{{Name: "envoy", Text: "<!-- files --></script>"}}}
	if err := Record(&b, []live.Frame{hostile, frameAt(2)}, facts); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if regexp.MustCompile(`(?:src|href)="[^"d]|@import|(?m)^(?:import|export) `).MatchString(text) {
		t.Error("it loads something")
	}
	if strings.Contains(text, "<img") || strings.Count(text, "</script>") != 3 {
		t.Error("a name has become markup")
	}
	_, data, _ := strings.Cut(text, `id="record">`)
	data, _, _ = strings.Cut(data, "</script>")
	var record struct {
		Facts  Facts        `json:"facts"`
		Frames []live.Frame `json:"frames"`
	}
	if err := json.Unmarshal([]byte(data), &record); err != nil || len(record.Frames) != 2 ||
		record.Frames[0].Gateways[0].Name != hostile.Gateways[0].Name || record.Facts.Texts[0] != facts.Texts[0] {
		t.Errorf("it has %+v: %v", record, err)
	}
}

// Of decisions a record has a few of each frame, and of those all that becomes known.
func TestRecordOfManyDecisions(t *testing.T) {
	frame := live.Frame{Gateways: []live.Gateway{{Name: "a"}, {Name: "b"}}}
	for g := range frame.Gateways {
		for i := range 10 {
			frame.Gateways[g].Decisions = append(frame.Gateways[g].Decisions, state.Decision{ID: fmt.Sprint(i)})
		}
	}
	for i, f := range fewer([]live.Frame{frame, frame}) {
		for _, g := range f.Gateways {
			if len(g.Decisions) != keptDecisions || g.Decisions[0].ID != "0" {
				t.Errorf("frame %d, %s: %d decisions", i, g.Name, len(g.Decisions))
			}
		}
	}
	if len(frame.Gateways[0].Decisions) != 10 {
		t.Error("the frames themselves have changed")
	}
}
