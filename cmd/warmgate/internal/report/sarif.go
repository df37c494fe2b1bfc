package report

import (
	"io"
	"net/url"
	"path/filepath"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/lint"
)

// The parts of SARIF 2.1.0 that are used. Its specification:
// https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Invocations []sarifInvocation `json:"invocations"`
		ColumnKind  string            `json:"columnKind"`
		Results     []sarifResult     `json:"results"`
	}
	sarifInvocation struct {
		Successful    bool                `json:"executionSuccessful"`
		Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	}
	sarifNotification struct {
		Level   string       `json:"level"`
		Message sarifMessage `json:"message"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string       `json:"id"`
		ShortDescription sarifMessage `json:"shortDescription"`
		Configuration    sarifLevel   `json:"defaultConfiguration"`
		HelpURI          string       `json:"helpUri"`
	}
	sarifLevel struct {
		Level string `json:"level"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn"`
	}
)

const home = "https://github.com/warmgate/warmgate"

// sarif prints the report for programs that collect what tools find, such as GitHub's code scanning.
func sarif(w io.Writer, r *Report, o Options) error {
	driver := sarifDriver{Name: "warmgate", Version: o.Version, InformationURI: home}
	index := map[string]int{}
	for i, k := range lint.Kinds {
		level := severityError
		if k.Warning {
			level = severityWarning
		}
		index[k.Name] = i
		driver.Rules = append(driver.Rules, sarifRule{
			ID: k.Name, ShortDescription: sarifMessage{k.Meaning}, Configuration: sarifLevel{level},
			HelpURI: home + "/blob/main/docs/command-line.md#kinds-of-findings",
		})
	}
	run := sarifRun{Tool: sarifTool{driver}, ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	invocation := sarifInvocation{Successful: len(r.Unread) == 0}
	for _, text := range r.Unread {
		notification := sarifNotification{severityError, sarifMessage{text}}
		invocation.Notifications = append(invocation.Notifications, notification)
	}
	run.Invocations = []sarifInvocation{invocation}
	for _, f := range r.Findings {
		uri := url.URL{Path: filepath.ToSlash(f.File)}
		run.Results = append(run.Results, sarifResult{
			RuleID: f.Kind, RuleIndex: index[f.Kind], Level: f.Severity, Message: sarifMessage{f.message()},
			Locations: []sarifLocation{{sarifPhysical{sarifArtifact{uri.String()}, sarifRegion{f.Line, f.Column}}}},
		})
	}
	return indented(w, sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run},
	})
}
