package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/lint"
	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
)

var update = flag.Bool("update", false, "write the golden files")

// example is a report with an error and a warning, in names and texts that formats have to escape.
func example() *Report {
	f := source.NewFile("a b/c,d:50%.yaml", []byte("lb_policy: prefix_cache\nlb_config:\n  max_inflight: \"é\"\n"))
	r := new(Report)
	r.Add(f, lint.Result{Configurations: 1, Findings: []lint.Finding{
		{Kind: "value", Path: "lb_config.max_inflight", Text: "got <\"é\">\n%", At: 51},
		{Kind: "placeholder", Warning: true, Text: "an example", At: 24},
	}})
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
		golden := "testdata/" + format.Name + ".golden"
		if format.Name == "sarif" { // the rules are those of lint
			out = *bytes.NewBuffer(withoutRules(t, out.Bytes()))
		}
		if *update {
			if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || !bytes.Equal(out.Bytes(), want) {
			t.Errorf("%s: %v\n%s\nwant (see -update)\n%s", format.Name, err, out.String(), want)
		}
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

// logged is what SARIF 2.1.0 requires of the objects that a log has.
type logged struct {
	Version string
	Schema  string `json:"$schema"`
	Runs    []struct {
		ColumnKind string
		Tool       struct {
			Driver struct {
				Name  string
				Rules []struct {
					ID                   string
					ShortDescription     struct{ Text string }
					DefaultConfiguration struct{ Level string }
				}
			}
		}
		Results []struct {
			RuleID    string `json:"ruleId"`
			RuleIndex *int
			Level     string
			Message   struct{ Text string }
			Locations []struct {
				PhysicalLocation struct {
					ArtifactLocation struct{ URI string }
					Region           struct{ StartLine, StartColumn int }
				}
			}
		}
	}
}

// TestSARIF reads a log as other programs do: what they need is there, and each reference leads to a rule.
func TestSARIF(t *testing.T) {
	var out bytes.Buffer
	if err := example().Print(&out, "sarif", Options{Version: "1.2.3"}); err != nil {
		t.Fatal(err)
	}
	var log logged
	if err := json.NewDecoder(&out).Decode(&log); err != nil {
		t.Fatal(err)
	}
	if log.Version != "2.1.0" || !strings.Contains(log.Schema, "sarif-2.1.0") || len(log.Runs) != 1 {
		t.Fatalf("%+v", log)
	}
	run := log.Runs[0]
	rules := run.Tool.Driver.Rules
	if run.Tool.Driver.Name == "" || run.ColumnKind != "unicodeCodePoints" || len(rules) != len(lint.Kinds) {
		t.Errorf("%+v", run)
	}
	for _, r := range rules {
		level := r.DefaultConfiguration.Level
		if r.ID == "" || r.ShortDescription.Text == "" || level != "error" && level != "warning" {
			t.Errorf("%+v", r)
		}
	}
	if len(run.Results) != 2 {
		t.Errorf("%d results", len(run.Results))
	}
	for _, r := range run.Results {
		at := r.Locations[0].PhysicalLocation
		if r.RuleIndex == nil || rules[*r.RuleIndex].ID != r.RuleID || r.Message.Text == "" || r.Level == "" ||
			at.Region.StartLine < 1 || at.Region.StartColumn < 1 || strings.Contains(at.ArtifactLocation.URI, " ") {
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
