package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden parses each testdata/*.json for the gateway that its name begins with, and compares all that comes out of
// it, every message included, with the file beside it.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			h := Higress
			if strings.HasPrefix(name, "envoy-") {
				h = Envoy
			}
			golden(t, strings.TrimSuffix(file, ".json")+".golden", describe(Parse(raw, h)))
		})
	}
}

// describe writes down the result of Parse.
func describe(s *Set, err error) string {
	var b strings.Builder
	if err != nil {
		fmt.Fprintln(&b, err)
	}
	if s == nil {
		return b.String()
	}
	for _, r := range s.Refusals() {
		fmt.Fprintf(&b, "refused: %s, kept: %v\n", r.Part, r.Kept)
	}
	for _, w := range s.Warnings() {
		fmt.Fprintln(&b, "warning:", w)
	}
	for i := range s.rules {
		fmt.Fprintln(&b, "rule:", shown(s.rules[i].config))
	}
	if s.global != nil {
		fmt.Fprintln(&b, "global:", shown(*s.global))
	}
	return b.String()
}

// shown writes down a configuration, with the settings of its policy where they have no field.
func shown(c Config) string {
	if c.Refused {
		return "refused"
	}
	own := ""
	if s := c.own[c.Policy]; s != nil {
		own = fmt.Sprintf(" %s:%+v", c.Policy, reflect.ValueOf(s).Elem())
	}
	inside := ""
	if c.Clusters.Endpoint != nil {
		inside = "\n  endpoint: " + shown(*c.Clusters.Endpoint)
	}
	c.own, c.Clusters.Endpoint = nil, nil
	text := strings.Replace(fmt.Sprintf("%+v", c), " own:map[]", own, 1)
	return strings.Replace(text, " API:none", "", 1) + inside
}

// String writes down the settings without the types that they are grouped in.
func (e Engines) String() string {
	return fmt.Sprintf("{Order:%v Target:%s ShareLimit:%v Engine:%s Path:%s Port:%d Interval:%v StaleAfter:%v ORCA:%v "+
		"Learn:%v Cluster:%s id:%d RunningCost:%v QueueCost:%v KVCacheCost:%v LoRACost:%v}",
		e.Order, e.Target, e.RateLimit,
		e.Engine, e.Path, e.Port, e.Interval, e.StaleAfter, e.ORCA, e.Learn, e.Cluster, e.id,
		e.Weights.Running, e.Weights.Queue, e.Weights.KVCache, e.Weights.LoRA)
}

// String writes down the regions, none and all of them as such.
func (r Regions) String() string {
	if !r.Enabled() {
		return "none"
	}
	allowed := "all"
	if r.Allowed != nil {
		allowed = fmt.Sprint(r.Allowed)
	}
	return fmt.Sprintf("{Name:%s Cluster:%s Peers:%+v Interval:%v Buffer:%d Secret:%v Allowed:%s Memory:%d Header:%s "+
		"Gone:%v Steady:%v}", r.Name, r.Cluster, r.Peers, r.Interval, r.Buffer, r.Secret, allowed, r.Memory, r.Header,
		r.Gone, r.Steady)
}

// String writes down the admission API, none as such.
func (a API) String() string {
	if a.Path == "" {
		return "none"
	}
	return fmt.Sprintf("{%s Token:%v LeaseTTL:%v}", a.Path, a.Token, a.LeaseTTL)
}

// String writes down a class without the types that it is made of.
func (c Class) String() string {
	return fmt.Sprintf("{%s ID:%d Rank:%d Weight:%v Reserved:%d}", c.Name, c.ID, c.Rank, c.Weight, c.Reserved)
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
