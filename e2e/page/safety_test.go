package page

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/warmgate/warmgate/internal/live"
	livepage "github.com/warmgate/warmgate/internal/live/page"
)

// hostile is a name that some would have run as a script, or break out of an attribute or a list of classes.
const hostile = `"'><img src=x onerror="window.hit=1"><script>window.hit=1</script>{n}</title> color-1`

// hostileFrame returns a frame in which all that can be told by others has that name.
func hostileFrame(t *testing.T) live.Frame {
	t.Helper()
	frame := story(90)[70]
	text, err := json.Marshal(frame)
	if err != nil {
		t.Fatal(err)
	}
	bad, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	var raw any
	if err := json.Unmarshal(text, &raw); err != nil {
		t.Fatal(err)
	}
	text, err = json.Marshal(renamed(raw))
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.ReplaceAll(string(text), `"renamed`, string(bad[:len(bad)-1])))
	if err := json.Unmarshal(text, &frame); err != nil {
		t.Fatal(err)
	}
	frame.Gateways[0].Problems = []string{hostile}
	return frame
}

// renamed returns a JSON value in which texts begin with a word.
func renamed(v any) any {
	switch v := v.(type) {
	case string:
		return "renamed" + v
	case []any:
		for i := range v {
			v[i] = renamed(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = renamed(v[k])
		}
	}
	return v
}

// TestHostileNames has names of everything be markup: they are shown as text.
func TestHostileNames(t *testing.T) {
	frame := hostileFrame(t)
	s, url := serve(t, livepage.Facts{
		Title: hostile, About: []string{hostile}, Texts: []livepage.Text{{Name: hostile, Text: hostile}},
		Tables: []livepage.Table{{Name: hostile, Head: []string{hostile}, Rows: [][]string{{hostile}}}},
	})
	show(t, s, frame)
	b := open(t)
	b.do(t, chromedp.Navigate(url))
	at(t, b, frame)
	openDecision(t, b)
	again := frame
	again.AtMS++
	again.Note += "!"
	again.Gateways = again.Gateways[:1]
	show(t, s, again)
	at(t, b, again)
	openDecision(t, b)
	got := eval[[]int](t, b, `[Number(Boolean(window.hit)), document.images.length,
	  document.body.querySelectorAll("script").length,
	  document.body.innerText.split("<img src=x onerror").length]`)
	if got[0] != 0 || got[1] != 0 || got[2] != 0 || got[3] < 30 {
		t.Errorf("hits, images, scripts, texts: %v", got)
	}
	if width := eval[int](t, b, `document.documentElement.scrollWidth - innerWidth`); width > 0 {
		t.Errorf("long names make the page %d pixels too wide", width)
	}
}

// Nothing but the page itself is asked for, and an attempt to run or load something else fails.
func TestNothingElseIsLoaded(t *testing.T) {
	s, url := serve(t, livepage.Facts{})
	show(t, s, story(1)...)
	b := open(t)
	b.expectsErrors.Store(true)
	var asked []string
	chromedp.ListenTarget(b.ctx, func(event any) {
		if e, ok := event.(*network.EventRequestWillBeSent); ok {
			asked = append(asked, e.Request.URL)
		}
	})
	b.do(t, network.Enable(), chromedp.Navigate(url))
	at(t, b, story(1)[0])
	for _, address := range asked {
		if !strings.HasPrefix(address, url) && !strings.HasPrefix(address, "data:") {
			t.Errorf("it asks for %s", address)
		}
	}
	if len(asked) < 10 {
		t.Errorf("it asks for %q", asked)
	}
	b.do(t, chromedp.Evaluate(`(() => {
	  const script = document.createElement("script");
	  script.textContent = "window.hit = 1";
	  document.body.append(script);
	})()`, nil))
	refused := eval[string](t, b, `fetch("http://127.0.0.2:1/").then(() => "done", (error) => String(error))`)
	if eval[bool](t, b, `Boolean(window.hit)`) || !strings.Contains(refused, "Failed to fetch") {
		t.Errorf("a script has run, or something is loaded: %q", refused)
	}
}

func TestToken(t *testing.T) {
	const token = "a token & more than sixteen bytes"
	s := livepage.New(livepage.Facts{}, token)
	server := httptest.NewServer(s)
	defer server.Close()
	defer s.Close()
	show(t, s, story(1)...)
	b := open(t)
	b.expectsErrors.Store(true) // 401
	b.do(t, chromedp.Navigate(server.URL))
	if got := eval[string](t, b, `document.body.innerText`); !strings.HasPrefix(got, "This page wants its token") {
		t.Errorf("without the token it shows %q", got)
	}
	b.do(t, chromedp.Navigate(server.URL+"/?token=a+token+%26+more+than+sixteen+bytes"))
	at(t, b, story(1)[0])
	if got := eval[string](t, b, `location.href + document.cookie`); got != server.URL+"/" {
		t.Errorf("scripts know %q", got)
	}
}

// TestReconnect has the page lose its server, and find it again. In between it says so.
func TestReconnect(t *testing.T) {
	t.Parallel() // it waits most of the time
	frames := story(90)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	first := livepage.New(livepage.Facts{}, "")
	server := &http.Server{Handler: first, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	show(t, first, frames[:10]...)
	b := open(t)
	b.expectsErrors.Store(true)
	b.do(t, chromedp.Navigate("http://"+addr+"/"))
	at(t, b, frames[9])
	first.Close()
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	b.until(t, `document.querySelector(".state").innerText.startsWith("The connection is lost")`)
	if got := eval[string](t, b, `document.getElementById("spoken").textContent`); !strings.HasPrefix(got, "The conn") {
		t.Errorf("readers for the blind say %q", got)
	}
	// At first there is a server that has too many viewers: the browser itself would then give up.
	full := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })}
	asked := make(chan bool, 1)
	full.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateIdle {
			select {
			case asked <- true:
			default:
			}
		}
	}
	listener, err = net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = full.Serve(listener) }()
	<-asked
	if err := full.Close(); err != nil {
		t.Fatal(err)
	}
	second := livepage.New(livepage.Facts{}, "")
	defer second.Close()
	show(t, second, frames[20:41]...)
	if listener, err = net.Listen("tcp", addr); err != nil {
		t.Fatal(err)
	}
	server = &http.Server{Handler: second, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	at(t, b, frames[40])
	if got := eval[string](t, b, `document.querySelector(".state").innerText`); strings.Contains(got, "lost") {
		t.Errorf("it says %q", got)
	}
	shows(t, eval[[]gatewayShown](t, b, readPage), frames[40])
}

// A connection that stays open while nothing comes is no news, which the page says.
func TestSilence(t *testing.T) {
	t.Parallel() // it waits most of the time
	frames := story(2)
	s, url := serve(t, livepage.Facts{})
	show(t, s, frames[0])
	b := open(t)
	b.do(t, chromedp.Navigate(url))
	at(t, b, frames[0])
	b.until(t, `document.querySelector(".state").innerText === "Nothing has come since 02:13:20 PM."`)
	show(t, s, frames[1])
	b.until(t, `document.querySelector(".state").innerText === "02:13:21 PM"`)
}
