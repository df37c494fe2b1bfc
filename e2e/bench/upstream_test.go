package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

func TestSkipRequestRejectsGarbage(t *testing.T) {
	for _, bad := range []string{
		"", "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab",
	} {
		if err := skipRequest(bufio.NewReader(strings.NewReader(bad))); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestUpstreamAnswers checks that an answer is a completion with the usage that was set.
func TestUpstreamAnswers(t *testing.T) {
	up, err := StartUpstream(2)
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	up.Answer(`{"prompt_tokens":7}`)
	resp, err := http.Post("http://"+up.Addrs(2)[1], "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got struct {
		Choices []any
		Usage   map[string]int
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(body, &got) != nil || len(got.Choices) != 1 || got.Usage["prompt_tokens"] != 7 {
		t.Errorf("%s, %v", body, err)
	}
	res, err := loadgen.Raw{
		Addr: up.Addrs(1)[0], Request: loadgen.PostRequest("x", "/", nil), Requests: 3,
	}.Run(context.Background())
	if err != nil || res.Errors > 0 || up.Served() != 4 {
		t.Errorf("%+v, %v, %d served", res, err, up.Served())
	}
}
