package config

import (
	"errors"
	"slices"
)

// Telemetry is what is measured of requests, for statistics, the access log and spans.
type Telemetry struct {
	Enabled     bool // else statistics have no requests
	ReadAnswers bool // of all answers, for their tokens; else only where a policy needs them
	Log         LogForm
	Spans       bool // are shown what is known of requests
}

// LogForm is in which form the access log has what a request was, beside the decision.
type LogForm uint8

// The forms.
const (
	LogLine     LogForm = iota // as the rest of the line
	LogFields                  // as members of an object
	LogBoth                    // as both
	LogDecision                // not at all
)

var logNames = []string{LogLine: "line", LogFields: "fields", LogBoth: "both", LogDecision: "decision"}

// String returns the form's name in the configuration.
func (f LogForm) String() string { return logNames[f] }

// UnmarshalText sets the form to the one with the name.
func (f *LogForm) UnmarshalText(name []byte) error {
	i := slices.Index(logNames, string(name))
	if i < 0 {
		return errors.New("config: unknown form " + string(name))
	}
	*f = LogForm(i)
	return nil
}

// HasLine reports whether the line has what a request was.
func (f LogForm) HasLine() bool { return f == LogLine || f == LogBoth }

// HasFields reports whether there are fields.
func (f LogForm) HasFields() bool { return f == LogFields || f == LogBoth }
