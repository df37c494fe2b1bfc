package config

import "testing"

func TestFormsOfTheLog(t *testing.T) {
	for form, want := range map[LogForm]struct{ line, fields bool }{
		LogLine: {true, false}, LogFields: {false, true}, LogBoth: {true, true}, LogDecision: {},
	} {
		var got LogForm
		if err := got.UnmarshalText([]byte(form.String())); err != nil || got != form {
			t.Errorf("%v: %v, %v", form, got, err)
		}
		if form.HasLine() != want.line || form.HasFields() != want.fields {
			t.Errorf("%v: line %v, fields %v", form, form.HasLine(), form.HasFields())
		}
	}
	if err := new(LogForm).UnmarshalText([]byte("Line")); err == nil {
		t.Error("an unknown form is accepted")
	}
}
