package core

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// cluster_hash sends the requests with one value of the header to one cluster, by the weights, and none without it.
func TestClusterHash(t *testing.T) {
	d := startSites(t, 1, `{"lb_type":"cluster","lb_policy":"cluster_hash","lb_config":{"clusters":[`+
		`{"cluster":"a","weight":70},{"cluster":"b","weight":30}]}}`)
	to := map[string]int{}
	for i := range 500 {
		r := streamtest.Request{Headers: [][2]string{{"x-mse-consumer", fmt.Sprint(i)}}}
		first, second := d.client(0, r), d.client(0, r)
		if first.target() != second.target() {
			t.Fatalf("consumer %d: %s and %s", i, first.target(), second.target())
		}
		to[first.target()]++
		first.Finish()
		second.Finish()
	}
	if to["a"] < 310 || to["a"] > 390 || to["a"]+to["b"] != 500 {
		t.Errorf("%v of 500 consumers", to)
	}
	c := d.client(0, streamtest.Request{})
	if c.Result().Status != 403 || c.Result().Body != "hash header required" {
		t.Errorf("without the header: %+v", c.Result())
	}
	d.emptied()
}

// The key of cluster_hash may be in the body, alone or beside a header: what has it is placed by it, the rest refused.
func TestClusterHashOfBodies(t *testing.T) {
	const member, none = `{"user":"alice"}`, `{"prompt":"x"}`
	json := [2]string{"content-type", "application/json"}
	header := [2]string{"x-id", "alice"}
	for keys, served := range map[string][6]bool{ // for the requests below
		`"body:user"`:                 {true},
		`"header:x-id","body:user"`:   {true, true, true, true},
		`"body:user","header:x-id"`:   {true, true, true, true},
		`"header:x-id","cookie:user"`: {false, true, true, true},
	} {
		d := startSites(t, 1, `{"lb_type":"cluster","lb_policy":"cluster_hash","lb_config":{"session":{"key":[`+keys+`]},`+
			`"clusters":[{"cluster":"a","weight":50},{"cluster":"b","weight":50}]}}`)
		targets := map[string]bool{}
		for i, r := range [6]streamtest.Request{
			{Headers: [][2]string{json}, Frames: []string{member[:5], member[5:]}},
			{Headers: [][2]string{json, header}, Frames: []string{none}},
			{Headers: [][2]string{{"content-type", "text/plain"}, header}, Frames: []string{"text"}},
			{Headers: [][2]string{header}},
			{Headers: [][2]string{json}, Frames: []string{none}},
			{Headers: [][2]string{json}},
		} {
			c := d.client(0, r)
			if refused := c.Result().Status == 403; refused == served[i] {
				t.Errorf("%s: request %d: %+v, want served: %t", keys, i, c.Result(), served[i])
			}
			if served[i] {
				targets[c.target()] = true
				c.Finish()
			}
		}
		if len(targets) != 1 {
			t.Errorf("%s: one key goes to %v", keys, targets)
		}
		d.emptied()
	}
}

// A text of any length is a key in a header, a cookie or the query; in the body one of up to 1 KiB.
func TestLongKeys(t *testing.T) {
	d := startSites(t, 1, `{"lb_type":"cluster","lb_policy":"cluster_hash","lb_config":{`+
		`"session":{"key":["header:x-id","cookie:id","query:id","body:id"]},`+
		`"clusters":[{"cluster":"a","weight":50},{"cluster":"b","weight":50}]}}`)
	json := [2]string{"content-type", "application/json"}
	targets := map[string]bool{}
	for length, inBody := range map[int]bool{1 << 10: true, 1<<10 + 1: false} {
		key := strings.Repeat("k", length)
		for i, r := range []streamtest.Request{
			{Headers: [][2]string{json}, Frames: []string{`{"id":"` + key + `"}`}},
			{Headers: [][2]string{{"x-id", key}}},
			{Headers: [][2]string{{"cookie", "id=" + key}}},
			{Path: "/v1/chat/completions?id=" + key},
		} {
			c := d.client(0, r)
			if refused := c.Result().Status == 403; refused != (i == 0 && !inBody) {
				t.Errorf("%d bytes, request %d: %+v", length, i, c.Result())
			}
			if c.Result().Status != 403 {
				targets[fmt.Sprint(length, c.target())] = true
				c.Finish()
			}
		}
	}
	if len(targets) != 2 {
		t.Errorf("two keys go to %v", targets)
	}
	d.emptied()
}

// cluster_hash sends the requests of a key to its cluster however small that is, and however many they are.
func TestClusterHashHasNoBound(t *testing.T) {
	d := startSites(t, 1, `{"lb_type":"cluster","lb_policy":"cluster_hash","lb_config":{"clusters":[`+
		`{"cluster":"a","weight":99.5},{"cluster":"b","weight":0.5}]}}`)
	for i := range 2000 {
		r := streamtest.Request{Headers: [][2]string{{"x-mse-consumer", fmt.Sprint(i)}}}
		first := d.client(0, r)
		if first.target() == "a" {
			first.Finish()
			continue
		}
		open := []*fakeStream{first}
		for range 20 {
			open = append(open, d.client(0, r))
		}
		for n, c := range open {
			if c.target() != "b" {
				t.Errorf("request %d of a consumer of b goes to %s", n, c.target())
			}
			c.Finish()
		}
		d.emptied()
		return
	}
	t.Error("b has no consumers")
}
