package routes

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestRoutes runs all cases on one gateway of each version.
func TestRoutes(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			l := newLayout(t, version)
			for _, c := range []struct {
				name string
				run  func(l *layout)
			}{
				{"router in front", (*layout).routerInFront},
				{"router behind", (*layout).routerBehind},
				{"weighted clusters", (*layout).weighted},
				{"redirect", (*layout).redirect},
				{"retries", (*layout).retries},
				{"subset", (*layout).subset},
				{"subset hint", (*layout).subsetHint},
				{"mirror", (*layout).mirror},
				{"aggregate", (*layout).aggregate},
				{"compressors", (*layout).compressors},
				{"limit of bodies", (*layout).limit},
			} {
				t.Run(c.name, func(t *testing.T) {
					run := *l
					run.stage = &stage{l.Gateway, t}
					c.run(&run)
				})
				l.DrainedT(t)
			}
		})
	}
}

// routerInFront: requests are planned on the cluster that they go to. While another is full they are served, and the
// cap of their own cluster holds.
func (l *layout) routerInFront() {
	for range 5 * len(l.llm) {
		l.send(capped, "x-hold: yes")
	}
	refused := 0
	for range 10 {
		resp := l.answer(capped, "x-want: llm-b")
		if resp.StatusCode != http.StatusOK {
			refused++
		} else if host := resp.Header.Get("x-warmgate-host"); host != l.b[0].addr() {
			l.t.Errorf("planned on %s", host)
		}
	}
	served := 0
	for range 15 {
		if l.send(capped, "x-want: llm-b", "x-hold: yes").StatusCode == http.StatusOK {
			served++
		}
	}
	if refused != 0 || served != 5 {
		l.t.Errorf("%d of 10 requests for the idle llm-b were refused, and it served %d at a time; want 0 and 5",
			refused, served)
	}
}

// routerBehind: a lease whose request went to another cluster is noticed, and is not kept at an endpoint that has
// nothing to do with the request. As many as llm may have at a time, and one of its own.
func (l *layout) routerBehind() {
	n := 5 * len(l.llm)
	for range n {
		if by := l.send(capped, "x-late: llm-b", "x-hold: yes").Header.Get("x-served-by"); by != l.b[0].addr() {
			l.t.Fatalf("served by %s", by)
		}
	}
	if resp := l.answer(capped); resp.StatusCode != http.StatusOK {
		l.t.Errorf("a request for the idle llm got %s", resp.Status)
	}
	if got := l.SumT(l.t, strays); got != float64(n) {
		l.t.Errorf("%v strays, want %d", got, n)
	}
}

// weighted: the cluster that Envoy has drawn for a request is the one that it goes to.
func (l *layout) weighted() {
	astray, drawn := l.SumT(l.t, strays), 0
	for range 40 {
		resp := l.answer(toDrawn)
		by := resp.Header.Get("x-served-by")
		if resp.Header.Get("x-warmgate-host") != by {
			l.t.Errorf("served by %s, chosen %s", by, resp.Header.Get("x-warmgate-host"))
		}
		if by == l.b[0].addr() {
			drawn++
		}
	}
	if n := l.SumT(l.t, strays) - astray; n != 0 || drawn == 0 || drawn == 40 {
		l.t.Errorf("%v strays; %d of 40 requests went to llm-b", n, drawn)
	}
}

// redirect: the request that the gateway repeats is another one for the plugin.
func (l *layout) redirect() {
	before, astray := l.SumT(l.t, chosen), l.SumT(l.t, strays)
	resp := l.answer(toMoved, "x-redirect: http://llm.test/b")
	if by := resp.Header.Get("x-served-by"); by != l.b[0].addr() || resp.Header.Get("x-warmgate-host") != by {
		l.t.Errorf("served by %s, planned on %s, want %s", by, resp.Header.Get("x-warmgate-host"), l.b[0].addr())
	}
	if n := l.SumT(l.t, chosen) - before; n != 2 {
		l.t.Errorf("%v decisions, want 2", n)
	}
	if n := l.SumT(l.t, strays) - astray; n != 0 {
		l.t.Errorf("%v strays, want none", n)
	}
}

// Statistics of requests that were chosen for, and that were served elsewhere.
const (
	chosen = `^wasmcustom\.warmgate_decisions_total.*;reason=chosen$`
	strays = `^wasmcustom\.warmgate_lease_strays_total$`
)

// retries: they go to the endpoints that the plan names, not to those that native balancing prefers.
func (l *layout) retries() {
	plan, elsewhere := addrs(every(l.llm, 0)), 0
	for i := range 40 {
		resp := l.answer(half, fmt.Sprintf("x-fail: %d", 1+i%2))
		if by := resp.Header.Get("x-served-by"); resp.StatusCode != http.StatusOK {
			l.t.Fatal(resp.Status)
		} else if !slices.Contains(plan, by) {
			elsewhere++
		}
	}
	if elsewhere != 0 {
		l.t.Errorf("%d of 40 retries left the plan", elsewhere)
	}
}

// subsetHint: a request goes to an endpoint that its metadata names, at each attempt.
func (l *layout) subsetHint() {
	used, named := map[string]bool{}, addrs(every(l.llm, 1))
	for i := range 24 {
		resp := l.answer(hinted, fmt.Sprintf("x-fail: %d", i%2))
		by := resp.Header.Get("x-served-by")
		if used[by] = true; resp.StatusCode != http.StatusOK || !slices.Contains(named, by) {
			l.t.Fatalf("%s, served by %q, not by one of %v", resp.Status, by, named)
		}
	}
	if len(used) != len(named) {
		l.t.Errorf("of %v these have served: %v", named, used)
	}
}

// subset: a route to a subset of a cluster gets no endpoint that is not in it, and what has no endpoint yet is a
// subset.
func (l *layout) subset() {
	if reason := l.answer(toBare).Header.Get("x-warmgate-reason"); reason != "subset" {
		l.t.Errorf("a subset that is empty is counted as %s", reason)
	}
	right := addrs(every(l.versions, 1))
	for _, c := range []struct {
		reason  string
		headers []string
	}{
		{"subset", []string{toV2}},
		{"chosen", []string{toV2, second}},
	} {
		wrong, reasons := 0, map[string]int{}
		for range 40 {
			resp := l.answer(c.headers...)
			reasons[resp.Header.Get("x-warmgate-reason")]++
			if !slices.Contains(right, resp.Header.Get("x-served-by")) {
				wrong++
			}
		}
		if wrong != 0 || reasons[c.reason] != 40 {
			l.t.Errorf("%q: %d of 40 requests were served by another version; reasons %v, want %s",
				c.headers, wrong, reasons, c.reason)
		}
	}
}

// mirror: copies of requests are balanced by their own cluster, and are no requests for the plugin.
func (l *layout) mirror() {
	all := append(slices.Clone(l.llm), l.copies...)
	for _, s := range all {
		s.take()
	}
	before := l.SumT(l.t, `^wasmcustom\.warmgate_decisions_total`)
	for range 40 {
		l.answer(toMirror)
	}
	if n := l.SumT(l.t, `^wasmcustom\.warmgate_decisions_total`) - before; n != 40 {
		l.t.Errorf("%v decisions, want 40", n)
	}
	copies, apart, leaks := 0, 0, 0
	harness.Await(l.t, func() error {
		for i, s := range all {
			for _, h := range s.take() {
				if h.Get("x-warmgate-session") != "" || h.Get("x-gateway-destination-endpoint") != "" {
					leaks++
				}
				if strings.Contains(h.Get("x-test-host"), "-shadow") {
					copies++
					if i >= len(l.llm) {
						apart++
					}
				}
			}
		}
		if copies < 40 {
			return fmt.Errorf("%d of 40 copies have come", copies)
		}
		return nil
	})
	want := 40 * len(l.copies) / len(all) // and a few more or less: each worker begins somewhere
	if apart < want-4 || apart > want+4 || leaks != 0 {
		l.t.Errorf("%d of 40 copies went to endpoints that only the mirror has, want about %d; "+
			"%d requests showed the choice", apart, want, leaks)
	}
}

// aggregate: Envoy decides which cluster of an aggregate gets a request, so the plugin does not place it.
func (l *layout) aggregate() {
	for range 20 {
		resp := l.answer(toEither)
		reason := resp.Header.Get("x-warmgate-reason")
		if resp.StatusCode != http.StatusOK || reason != "no_endpoints" {
			l.t.Fatalf("%s, counted as %s, want 200 and no_endpoints", resp.Status, reason)
		}
	}
}

// compressors: usage is read in answers that are compressed when the plugin has seen them, and not in those that are
// compressed before.
func (l *layout) compressors() {
	const stat = `^wasmcustom\.warmgate_prompt_tokens_total$`
	for _, c := range []struct {
		route string
		want  float64
	}{{toPacked, 10}, {toSealed, 0}} {
		before := l.SumT(l.t, stat)
		body := `{"model":"m","prompt":"` + strings.Repeat("hello ", 500) + `"}`
		resp := l.post(body, c.route, prompts, "accept-encoding: gzip")
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.Header.Get("content-encoding") != "gzip" {
			l.t.Errorf("%s: %s, encoded as %q: %v", c.route, resp.Status, resp.Header.Get("content-encoding"), err)
		}
		harness.Await(l.t, func() error {
			if n := l.SumT(l.t, `^http\.ingress\.downstream_rq_active$`); n != 0 {
				return fmt.Errorf("%v requests have not ended", n)
			}
			return nil
		})
		if n := l.SumT(l.t, stat) - before; n != c.want {
			l.t.Errorf("%s: %v tokens of prompts were read, want %v", c.route, n, c.want)
		}
	}
}

// limit: a body that is too long is refused before it gets a place.
func (l *layout) limit() {
	const all = `^wasmcustom\.warmgate_decisions_total`
	before := l.SumT(l.t, all)
	resp := l.post(`{"model":"m","prompt":"`+strings.Repeat("x", 1100_000)+`"}`, prompts)
	if n := l.SumT(l.t, all) - before; resp.StatusCode != http.StatusRequestEntityTooLarge || n != 0 {
		l.t.Errorf("%s and %v decisions, want 413 and none", resp.Status, n)
	}
}
