package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/internal/live"
)

// TestUI has the page show a gateway whose administration answers nothing that is of use.
func TestUI(t *testing.T) {
	admin := httptest.NewServer(http.NotFoundHandler())
	defer admin.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	printed, out := io.Pipe()
	command := newUI()
	command.SetArgs([]string{"--listen", "127.0.0.1:0", "--gateway", "eu=" + admin.URL})
	command.SetOut(out)
	ended := make(chan error, 1)
	go func() {
		ended <- command.ExecuteContext(ctx)
		out.Close()
	}()
	line, err := bufio.NewReader(printed).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	got, err := http.Get(strings.TrimSpace(line) + "events")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	var frame live.Frame
	lines := bufio.NewScanner(got.Body)
	for len(frame.Gateways) == 0 && lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), `data: {"at_ms"`); ok {
			if err := json.Unmarshal([]byte(`{"at_ms"`+data), &frame); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(frame.Gateways) != 1 || frame.Gateways[0].Name != "eu" || len(frame.Gateways[0].Problems) == 0 {
		t.Errorf("it shows %+v", frame)
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v", err)
	}
}

func TestUIRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, at := range []string{taken.Addr().String(), "8080", "127.0.0.1"} {
		status, out, errs := play("", "ui", "admin.sock", "--listen", at)
		if status != 2 || out != "" || !strings.Contains(errs, "--listen wants an address and a port") {
			t.Errorf("%s: %d %s%s", at, status, out, errs)
		}
	}
}

func TestViewerToken(t *testing.T) {
	here, everywhere := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, &net.TCPAddr{IP: net.IPv4zero, Port: 1}
	if token, made, err := new(ui).token(here); token != "" || made != "" || err != nil {
		t.Errorf("on this machine: %q, %q, %v", token, made, err)
	}
	token, made, err := new(ui).token(everywhere)
	if len(token) < minViewerToken || made != token || err != nil {
		t.Errorf("for all: %q, %q, %v", token, made, err)
	}
	if again, _, _ := new(ui).token(everywhere); again == token {
		t.Error("the same again")
	}
	u := &ui{tokenFile: filepath.Join(t.TempDir(), "token")}
	if _, _, err := u.token(here); err == nil {
		t.Error("a file that is not there is no error")
	}
	for text, want := range map[string]string{"of sixteen bytes\n": "of sixteen bytes", "a short one": ""} {
		if err := os.WriteFile(u.tokenFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		token, made, err := u.token(here)
		if token != want || made != "" || (err == nil) != (want != "") {
			t.Errorf("a file with %q: %q, %q, %v", text, token, made, err)
		}
	}
	if got := addressOf(here, "a&b"); got != "http://127.0.0.1:1/?token=a%26b" {
		t.Error(got)
	}
	if got := addressOf(&net.TCPAddr{IP: net.IPv6loopback, Port: 1}, ""); got != "http://[::1]:1/" {
		t.Error(got)
	}
}
