package placement

import (
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb/price"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/measured"
)

// This file is how a request that is over is put into the access log.

// AppendLine appends to a line of the access log what is known of a request that is over, beside the decision. What a
// client could choose is escaped.
func (r *Record) AppendLine(line []byte, m *measured.Request) []byte {
	number := func(name string, v int64) { line = strconv.AppendInt(append(line, name...), v, 10) }
	lasted := func(name string, d, unit time.Duration, unitName string) {
		if d > 0 {
			number(name, int64(max(1, d/unit)))
			line = append(line, unitName...)
		}
	}
	line = append(append(line, " outcome="...), m.Outcome.String()...)
	if m.Model != "" {
		line = appendEscaped(append(line, " model="...), m.Model, measured.MaxModel)
	}
	lasted(" ttft=", m.TTFT, time.Millisecond, "ms")
	lasted(" prefill=", m.Prefill, time.Millisecond, "ms")
	lasted(" per_token=", m.PerToken, time.Microsecond, "us")
	lasted(" gap_p99=", m.GapP99, time.Millisecond, "ms")
	if m.Retries > 0 {
		number(" retries=", int64(m.Retries))
	}
	line = appendTokens(line, &m.Tokens)
	if m.Cost > 0 {
		number(" cost_nano=", m.Cost)
	}
	if r.Bytes > 0 {
		number(" prompt_bytes=", int64(r.Bytes))
	}
	if m.Matches {
		line = strconv.AppendFloat(append(line, " match="...), m.Match, 'f', 2, 64)
	}
	if m.Rule != "" {
		line = append(append(line, " rule="...), m.Rule...)
	}
	if m.Target != "" {
		line = append(append(line, " target="...), m.Target...)
	}
	if m.RunnerUp != "" {
		line = append(append(line, " runner_up="...), m.RunnerUp...)
		line = strconv.AppendFloat(append(line, " lost_by="...), m.LostBy, 'f', 2, 64)
	}
	if r.Session != 0 {
		line = strconv.AppendUint(append(line, " session_id="...), uint64(r.Session), 16)
	}
	if len(r.blocks) > 0 {
		line = prompt.AppendFingerprint(append(line, " prompt="...), r.blocks, r.known)
	}
	return line
}

// appendTokens appends the tokens of a request, as APIs report them: those of the prompt with those that were cached,
// those of the answer with those of reasoning.
func appendTokens(line []byte, t *price.Tokens) []byte {
	if t.Prompt()+t.Completion() == 0 {
		return line
	}
	number := func(name string, v int64) { line = strconv.AppendInt(append(line, name...), v, 10) }
	number(" prompt_tokens=", t.Prompt())
	number(" output_tokens=", t.Completion())
	if t.Reasoning > 0 {
		number(" reasoning_tokens=", t.Reasoning)
	}
	if t.Estimated {
		return append(line, " usage=estimated"...)
	}
	number(" cached_tokens=", t.Cached)
	return line
}

// Fields appends to the fields of a request what a log has beside what was measured.
func (r *Record) Fields(list []measured.Field) []measured.Field {
	if r.Bytes > 0 {
		list = append(list, measured.Field{Name: "prompt_bytes", Number: float64(r.Bytes)})
	}
	if r.Session != 0 {
		list = append(list, measured.Field{Name: "session_id", Text: strconv.FormatUint(uint64(r.Session), 16)})
	}
	if len(r.blocks) > 0 {
		text := prompt.AppendFingerprint(nil, r.blocks, r.known)
		list = append(list, measured.Field{Name: "prompt", Text: string(text)})
	}
	return list
}

// appendEscaped appends a text of at most so many bytes as a part of a URL has it: all that could end it, or the line,
// is escaped. What is longer is cut off.
func appendEscaped(line []byte, text string, most int) []byte {
	const hex = "0123456789ABCDEF"
	for i := 0; i < min(len(text), most); i++ {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '-' && c <= ':', c == '_', c == '@', c == '+':
			line = append(line, c)
		default:
			line = append(line, '%', hex[c>>4], hex[c&15])
		}
	}
	return line
}
