package regions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

// secretSteps returns what docs/regions.md has pushed, step by step, as members of regions: with secrets that are none
// of the documents.
func secretSteps(t *testing.T) (steps []string) {
	_, text, _ := strings.Cut(string(harness.ReadT(t, "docs/regions.md")), "### Replacing the secret\n")
	text, _, _ = strings.Cut(text, "\n## ")
	text = strings.NewReplacer("the secret that all have, 32 random bytes", "0123456789abcdef",
		"the new secret, 32 random bytes", "fedcba9876543210").Replace(text)
	for _, block := range regexp.MustCompile("(?s)```text\n(.*?)```").FindAllStringSubmatch(text, -1) {
		var members bytes.Buffer
		if err := json.Compact(&members, []byte("{"+block[1]+"}")); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, strings.Trim(members.String(), "{}"))
	}
	if len(steps) != 2 {
		t.Fatalf("%d steps in docs/regions.md", len(steps))
	}
	return steps
}

// forwards has a region forward a request.
func forwards(t *testing.T, us *place) {
	t.Helper()
	answered := us.hold(t)
	a := harness.Send(t, nil, http.MethodGet, us.gateway.URL()+path, "")
	if a.Status != http.StatusOK || a.Header.Get("x-server") != "eu" {
		t.Errorf("%d, %v", a.Status, a.Header)
	}
	us.release <- struct{}{}
	<-answered
}

// As docs/regions.md has a secret replaced, the regions never lose each other. Without its first step they do, and
// with it they find each other again.
func TestSecretIsReplaced(t *testing.T) {
	steps := secretSteps(t)
	us, eu := startWith(t, harness.Options{}, false)
	times := ""
	push := func(p *place, name, peer, secrets string) {
		t.Helper()
		config := strings.NewReplacer(
			`"secret":"0123456789abcdef"`, times+secrets, `"rtt":"20ms"`, `"rtt":"20ms","adopt":{"cluster":"none"}`,
		).Replace(regionConfig(name, peer, ""))
		if err := p.gateway.PushPlugin(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	pushUS := func(secrets string) { t.Helper(); push(us, "us", "eu", secrets) }
	pushEU := func(secrets string) { t.Helper(); push(eu, "eu", "us", secrets) }
	sum := func(name string) float64 { return us.gateway.SumT(t, name) + eu.gateway.SumT(t, name) }
	adopted := func(want float64) {
		t.Helper()
		harness.Await(t, func() error {
			if n := sum("warmgate_region_adopted"); n != want {
				return fmt.Errorf("%v regions have adopted the other's servers, want %v", n, want)
			}
			return nil
		})
	}
	const one = `"secret":"0123456789abcdef"`
	for i, step := range []func(){
		func() { pushUS(steps[0]) }, func() { pushEU(steps[0]) },
		func() { pushUS(steps[1]) }, func() { pushEU(steps[1]) },
	} {
		step()
		time.Sleep(time.Second) // a few probes: each that was not understood is counted
		harness.Await(t, func() error {
			if n := sum("warmgate_region_available"); n != 2 {
				return fmt.Errorf("push %d: %v regions hear the other", i+1, n)
			}
			return nil
		})
		forwards(t, us)
	}
	if n := eu.gateway.SumT(t, "warmgate_region_served_total"); n != 4 {
		t.Errorf("the other region has served %v for this one", n)
	}
	if n := sum("warmgate_region_hops_forged_total") + sum("warmgate_region_probes_forged_total"); n != 0 {
		t.Errorf("%v texts were taken for forged ones", n)
	}
	times = `"gone":"500ms","steady":"200ms",`
	pushUS(one) // without the first step
	pushEU(steps[1])
	adopted(2)
	pushUS(steps[0])
	pushEU(steps[0])
	adopted(0)
	if got := len(us.hops) + len(eu.hops); got != 0 {
		t.Errorf("servers got %d hops", got)
	}
}
