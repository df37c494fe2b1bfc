package accesslog

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
)

// fields are what the plugin says of a request as members of an object; nil if it says nothing. Envoy prints the object
// as the value of a google.protobuf.Struct, Higress as a text.
type fields map[string]any

// UnmarshalJSON implements json.Unmarshaler.
func (f *fields) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		var inner string
		if err := json.Unmarshal(text, &inner); err != nil {
			return err
		}
		if inner == "-" || inner == "" { // there is no such property
			return nil
		}
		text = []byte(inner)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("warmgate_fields: %w", err)
	}
	if _, typed := all["@type"]; typed {
		value, ok := all["value"].(map[string]any)
		if !ok {
			return errors.New("warmgate_fields: no value")
		}
		all = value
	}
	*f = all
	return nil
}

// readFields reads the fields. Names that are not known are passed over.
func (r *Request) readFields(f fields) (err error) {
	text := func(name string) string {
		v, is := f[name].(string)
		if _, there := f[name]; there && !is {
			err = errors.Join(err, fmt.Errorf("%s is no text", name))
		}
		return v
	}
	number := func(name string) int {
		v, is := f[name].(float64)
		if _, there := f[name]; there && (!is || !(v >= 0 && v <= maxNumber)) {
			err = errors.Join(err, fmt.Errorf("%s is %v", name, f[name]))
		}
		return int(v)
	}
	r.Host, r.Reason, r.Class, r.Model = text("endpoint"), text("reason"), text("class"), text("model")
	r.Wait = time.Duration(number("wait_ms")) * time.Millisecond
	r.Prefill = time.Duration(number("prefill_ms")) * time.Millisecond
	r.Prompt, r.Cached, r.Output = number("prompt_tokens"), number("cached_tokens"), number("output_tokens")
	r.Estimated, r.Bytes = text("usage") == "estimated", number("prompt_bytes")
	if id := text("session_id"); id != "" {
		n, fault := strconv.ParseUint(id, 16, 64)
		r.Session, err = n, errors.Join(err, fault)
	}
	if print := text("prompt"); print != "" {
		marks, ok := prompt.ParseFingerprint(print)
		if r.Marks = marks; !ok {
			err = errors.Join(err, fmt.Errorf("%q is no fingerprint of a prompt", print))
		}
	}
	return errors.Join(err, r.lacksReason())
}
