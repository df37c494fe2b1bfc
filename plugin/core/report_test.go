package core

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/measured"
)

// LogFields implements host.GatewayStream.
func (s *fakeStream) LogFields(fields []measured.Field) {
	s.called("LogFields")
	s.logged = slices.Clone(fields)
}

// decisionOf returns what a line of the access log has of the decision.
func decisionOf(line string) string {
	decision, _, _ := strings.Cut(line, " outcome=")
	return decision
}

// What a request was is in the access log in the form that is configured; the decision always is a line.
func TestFormsOfTheAccessLog(t *testing.T) {
	for form, want := range map[string]struct{ line, fields bool }{
		"line": {true, false}, "fields": {false, true}, "both": {true, true}, "decision": {},
	} {
		d := startFake(t, 1, 2, `{"lb_policy":"global_least_request","lb_config":{"telemetry":{"log":"`+form+`"}}}`)
		first := d.client(0, streamtest.Request{})
		c := d.client(0, streamtest.Request{})
		for _, s := range []*fakeStream{c, first} {
			s.Finish()
		}
		line := d.access[0]
		if !strings.HasPrefix(line, "host=10.0.0.") || !strings.Contains(line, " reason=chosen load=1 policy=") {
			t.Errorf("%s: the line is %q", form, line)
		}
		other := "10.0.0." + strconv.Itoa(1+int(line[len("host=10.0.0.")]-'0')%2) + ":8000"
		if got := strings.Contains(line, " rule=cost runner_up="+other+" lost_by=1.00"); got != want.line {
			t.Errorf("%s: the line is %q", form, line)
		}
		if (len(c.logged) > 0) != want.fields {
			t.Errorf("%s: fields %v", form, c.logged)
		}
		for _, f := range []measured.Field{{Name: "runner_up", Text: other}, {Name: "lost_by", Number: 1}} {
			if want.fields && !slices.Contains(c.logged, f) {
				t.Errorf("%s: fields %v, want %v", form, c.logged, f)
			}
		}
		d.drained()
	}
}

// Debug headers show what had nearly been chosen, and what has decided.
func TestRunnerUpInDebugHeaders(t *testing.T) {
	d := startFake(t, 1, 2, `{"lb_policy":"global_least_request","lb_config":{"debug_headers":true}}`)
	first := d.client(0, streamtest.Request{})
	c := d.client(0, streamtest.Request{})
	c.Finish()
	first.Finish()
	headers := c.Result().Headers
	if headers["x-warmgate-rule"] != "cost" ||
		headers["x-warmgate-runner-up"] != first.Result().Headers["x-warmgate-host"]+";+1.00" {
		t.Errorf("%v", headers)
	}
	if got := first.Result().Headers["x-warmgate-rule"]; got != "tie" {
		t.Errorf("the first is chosen by %q", got)
	}
}
