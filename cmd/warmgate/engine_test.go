package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/tidwall/gjson"
)

// served are servers of the command, until they are interrupted.
type served struct {
	urls []string
	errs bytes.Buffer
	end  chan int // the exit status
}

// serve runs the command, and returns when it has said that its servers are ready.
func serve(t *testing.T, replicas int, args ...string) *served {
	t.Helper()
	out, in := io.Pipe()
	s := &served{end: make(chan int, 1)}
	go func() {
		s.end <- run(append([]string{"engine", "--port", "0"}, args...), streams{strings.NewReader(""), in, &s.errs})
		in.Close()
	}()
	lines := bufio.NewScanner(out)
	for range replicas {
		if !lines.Scan() {
			t.Fatalf("status %d, %s", <-s.end, s.errs.String())
		}
		s.urls = append(s.urls, strings.Fields(lines.Text())[0])
	}
	return s
}

// interrupt sends what Ctrl-C sends.
func interrupt(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
}

// begin sends a request, whose answer may go on.
func begin(t *testing.T, url, body string) *http.Response {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// ask returns the status of the whole answer, and the answer.
func ask(t *testing.T, url, body string) (int, string) {
	t.Helper()
	resp := begin(t, url, body)
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

const (
	chatOf  = "/v1/chat/completions"
	forPoet = `{"model":"poet","max_tokens":3,"messages":[{"role":"user","content":"Hello"}]}`
)

// TestEngine asks two servers for all that a gateway and its users do.
func TestEngine(t *testing.T) {
	s := serve(t, 2, "--replicas", "2", "--model", "qwen", "--model", "q", "--adapter", "poet", "--cache", "1600",
		"--speed", "1000")
	var texts []string
	for _, url := range s.urls {
		if status, _ := ask(t, url+"/health", ""); status != 200 {
			t.Errorf("/health: %d", status)
		}
		if _, list := ask(t, url+"/v1/models", ""); gjson.Get(list, "data.#.id").Raw != `["qwen","q","poet"]` {
			t.Errorf("models: %s", list)
		}
		_, answer := ask(t, url+chatOf, forPoet)
		texts = append(texts, gjson.Get(answer, "choices.0.message.content").Str)
		if status, _ := ask(t, url+chatOf, strings.Replace(forPoet, "poet", "another", 1)); status != 404 {
			t.Errorf("another model: %d", status)
		}
		if status, _ := ask(t, url+chatOf, strings.Replace(forPoet, ":3,", ":1600,", 1)); status != 400 {
			t.Errorf("what the cache has no room for: %d", status)
		}
		_, stream := ask(t, url+"/v1/completions", `{"model":"q","prompt":"Hello","stream":true,"max_tokens":3}`)
		if n := strings.Count(stream, "data: {"); n != 3 || !strings.HasSuffix(stream, "data: [DONE]\n\n") {
			t.Errorf("%d parts of a stream:\n%s", n, stream)
		}
		const used = `vllm:generation_tokens_total{engine="0",model_name="qwen"} 6.0`
		if _, page := ask(t, url+"/metrics", ""); !strings.Contains(page, used) {
			t.Errorf("%s is not in\n%s", used, page)
		}
	}
	if texts[0] != texts[1] || texts[0] == "" {
		t.Errorf("the same request has the answers %q", texts)
	}
	interrupt(t)
	if status := <-s.end; status != 0 || s.errs.String() != "" {
		t.Errorf("status %d, %s", status, s.errs.String())
	}
}

// TestEngineIsInterrupted has a stream in progress end in its time, or be cut when that is over.
func TestEngineIsInterrupted(t *testing.T) {
	for _, c := range []struct {
		grace, most string
		whole       bool
	}{{"10m", "100", true}, {"1ms", "100000", false}} {
		s := serve(t, 1, "--grace", c.grace)
		resp := begin(t, s.urls[0]+chatOf, `{"stream":true,"max_tokens":`+c.most+`,"messages":[{"role":"user","content":"x"}]}`)
		stream := bufio.NewReader(resp.Body)
		if _, err := stream.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		interrupt(t)
		rest, err := io.ReadAll(stream)
		if whole := err == nil && strings.HasSuffix(string(rest), "[DONE]\n\n"); whole != c.whole {
			t.Errorf("in %s: whole %t, %v, ...%s", c.grace, whole, err, rest[max(0, len(rest)-200):])
		}
		if status := <-s.end; status != 0 {
			t.Errorf("status %d, %s", status, s.errs.String())
		}
		if want := "Requests in progress: 1; they have " + c.grace; !strings.HasPrefix(s.errs.String(), want) {
			t.Errorf("%q, want %q", s.errs.String(), want)
		}
		if _, err := net.Dial("tcp", strings.TrimPrefix(s.urls[0], "http://")); err == nil {
			t.Error("it still listens")
		}
	}
}

// TestEngineRefuses checks what is said of flags that cannot be.
func TestEngineRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"--port " + port, taken.Addr().String() + ": bind: address already in use; --port names another"},
		{"--listen 192.0.2.1", "192.0.2.1:8000"}, // an address of no machine
		{"--replicas 0", "1 server at least"},
		{"--port 65535 --replicas 2", "ports from 1 to 65535"},
		{"--port -1", "ports from 1 to 65535"},
		{"--model=", "want a name"},
		{"--adapter=", "want a name"},
		{"--answer 0", "--answer of 1 token"},
		{"--grace -1s", "--grace must not"},
		{"--speed 0", "speed must be positive"},
		{"--speed 1e-9", "at most 3600000 ms, divided by the speed"},
		{"--listen=", "--listen wants an address"},
		{"--queue 0", "--queue of 1 at least"},
		{"--cache 15", "--cache of 16 tokens"},
		{"8000", `unknown command "8000"`},
	} {
		status, out, errs := play("", append([]string{"engine"}, strings.Fields(c.args)...)...)
		if status != 2 || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("engine %s: %d\n%s%s\nwant %s", c.args, status, out, errs, c.want)
		}
	}
}
