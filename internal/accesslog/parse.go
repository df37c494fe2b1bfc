package accesslog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Log is what was read.
type Log struct {
	Requests []Request // in order of their beginning
	Others   int       // lines in which the plugin says nothing of a request to a model server
	Bad      int       // lines that could not be read
	FirstBad error     // why, of the first one, with its number
}

// Parse reads a log. Blank lines are passed over; an error is one of the reader, or that there are no requests.
func Parse(from io.Reader) (*Log, error) {
	out := &Log{}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	number := 1
	for ; lines.Scan(); number++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		switch r, found, err := parseLine(line); {
		case !found:
			out.Others++
		case err != nil:
			if out.Bad++; out.FirstBad == nil {
				out.FirstBad = fmt.Errorf("line %d: %w", number, err)
			}
		default:
			out.Requests = append(out.Requests, r)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("access log, line %d: %w", number, err)
	}
	if len(out.Requests) == 0 {
		if out.FirstBad != nil {
			return nil, fmt.Errorf("access log, %w", out.FirstBad)
		}
		return nil, errors.New("access log: no line has what %FILTER_STATE(wasm.warmgate:PLAIN)% or " +
			"%FILTER_STATE(wasm.warmgate_fields:TYPED)% prints")
	}
	slices.SortStableFunc(out.Requests, func(a, b Request) int { return a.Start.Compare(b.Start) })
	return out, nil
}

// textLine is the shipped text format: the time, the method, the path, the status and more, and at the end the line.
var textLine = regexp.MustCompile(`^(\S+) \S+ \S+ (\d+|-) .* duration=(\d+|-) .*warmgate="([^"]*)"$`)

// parseLine reads a line. found: it has something of the plugin's.
func parseLine(line []byte) (r Request, found bool, err error) {
	if line[0] != '{' {
		m := textLine.FindSubmatch(line)
		if m == nil || ofNoRequest(string(m[4])) {
			return r, false, nil
		}
		err = r.readTimes(string(m[1]), string(m[3]), string(m[2]))
		return r, true, errors.Join(err, r.readNote(string(m[4])))
	}
	if !bytes.Contains(line, []byte(`"warmgate`)) {
		return r, false, nil
	}
	var of struct {
		Start    scalar `json:"start_time"`
		Duration scalar `json:"duration"`
		Status   scalar `json:"response_code"`
		Note     scalar `json:"warmgate"`
		Fields   fields `json:"warmgate_fields"`
	}
	if err := json.Unmarshal(line, &of); err != nil {
		return r, true, err
	}
	if of.Fields == nil && ofNoRequest(string(of.Note)) {
		return r, false, nil
	}
	err = r.readTimes(string(of.Start), string(of.Duration), string(of.Status))
	if of.Fields != nil { // the line may be the decision alone
		return r, true, errors.Join(err, r.readFields(of.Fields))
	}
	return r, true, errors.Join(err, r.readNote(string(of.Note)))
}

// ofNoRequest reports whether the plugin has said nothing, or has answered a call of its own API.
func ofNoRequest(note string) bool {
	return note == "" || note == "-" || strings.HasPrefix(note, "api=")
}

// scalar is a text or a number: some formats have all as text.
type scalar string

// UnmarshalJSON implements json.Unmarshaler.
func (s *scalar) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, (*string)(s))
	}
	if *s = scalar(strings.TrimSpace(string(text))); *s == "null" {
		*s = ""
	}
	return nil
}
