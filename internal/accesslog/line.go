package accesslog

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
)

// Request is what a line says of a request. What it does not say is 0 or "".
type Request struct {
	Start    time.Time
	Duration time.Duration // from its first byte to the last of the answer
	Status   int
	Host     string // that was chosen for it
	Reason   string // of docs/reasons.md
	Class    string
	Model    string
	Wait     time.Duration // in the queue
	Prefill  time.Duration // from when it was sent on to the first output of a stream

	Prompt, Cached, Output int  // tokens
	Estimated              bool // these are not from an answer
	Bytes                  int  // of the prompt's text
	Session                uint64
	Marks                  []prompt.Mark // of the prompt
}

// Served reports whether the answer was good, and shows what the request has cost.
func (r *Request) Served() bool { return r.Status == 200 && !r.Estimated && r.Prompt > 0 }

// SentAt is when the request was sent on, as far as is known.
func (r *Request) SentAt() time.Time { return r.Start.Add(r.Wait) }

// maxNumber bounds numbers of tokens and bytes.
const maxNumber = 1 << 30

// readNote reads the plugin's line: NAME=VALUE, separated by blanks. Names that are not known are passed over, and
// where a cluster was chosen first, the endpoint in it counts.
func (r *Request) readNote(note string) (err error) {
	number := func(to *int, text string) {
		v, fault := strconv.Atoi(text)
		if fault != nil || v < 0 || v > maxNumber {
			err = errors.Join(err, fmt.Errorf("%q is no number", text))
		}
		*to = v
	}
	period := func(to *time.Duration, text string) {
		v, fault := time.ParseDuration(text)
		if fault != nil || v < 0 {
			err = errors.Join(err, fmt.Errorf("%q is no time", text))
		}
		*to = v
	}
	ttft := time.Duration(0)
	for _, field := range strings.Fields(note) {
		name, text, _ := strings.Cut(field, "=")
		switch name {
		case "host":
			r.Host = text
		case "reason":
			r.Reason = text
		case "class":
			r.Class = text
		case "model":
			model, fault := url.PathUnescape(text)
			r.Model, err = model, errors.Join(err, fault)
		case "wait":
			period(&r.Wait, text)
		case "ttft":
			period(&ttft, text)
		case "prefill":
			period(&r.Prefill, text)
		case "prompt_tokens":
			number(&r.Prompt, text)
		case "cached_tokens":
			number(&r.Cached, text)
		case "output_tokens":
			number(&r.Output, text)
		case "prompt_bytes":
			number(&r.Bytes, text)
		case "usage":
			r.Estimated = text == "estimated"
		case "session_id":
			id, fault := strconv.ParseUint(text, 16, 64)
			r.Session, err = id, errors.Join(err, fault)
		case "prompt":
			marks, ok := prompt.ParseFingerprint(text)
			if r.Marks = marks; !ok {
				err = errors.Join(err, fmt.Errorf("%q is no fingerprint of a prompt", text))
			}
		}
	}
	if r.Prefill == 0 { // lines of 0.x before there was prefill
		r.Prefill = ttft
	}
	return errors.Join(err, r.lacksReason())
}

func (r *Request) lacksReason() error {
	if r.Reason == "" {
		return errors.New("no reason")
	}
	return nil
}

// readTimes reads the gateway's own fields.
func (r *Request) readTimes(start, duration, status string) (err error) {
	if r.Start, err = time.Parse(time.RFC3339Nano, start); err != nil {
		return fmt.Errorf("start_time is %q", start)
	}
	if ms, err := strconv.ParseFloat(duration, 64); err == nil && ms >= 0 && ms < math.MaxInt32 {
		r.Duration = time.Duration(ms * float64(time.Millisecond))
	} else if duration != "-" && duration != "" {
		return fmt.Errorf("duration is %q", duration)
	}
	r.Status, _ = strconv.Atoi(status) // "-" where there was no response
	return nil
}
