package prompt

import (
	"math"
	"strings"
	"sync"
)

// How engines say that a prompt is too long differs from one to the next, and from version to version, but the words do
// not: something that is sent, a comparison, and a length or a limit. A message is read as far as all of its words are
// of that kind or may stand between them, so what a client has sent, where that is quoted, ends it, and so does what is
// said of anything else.

// saying is what words of a message are about, as a set.
type saying uint8

const (
	ofPrompt   saying = 1 << iota // the prompt
	ofRequest                     // the prompt alone, or together with the answer that is wanted
	ofAnswer                      // the answer that is wanted
	ofContext                     // what a model can read at most
	ofLength                      // a length in tokens
	comparison                    // that something is more than something else, or the most of it
	between    saying = 0         // nothing
)

// sayings are the words, in lower case. A word may be in several.
var sayings = [...]struct {
	words string
	about saying
}{
	{"prompt input inputs messages splited_prompt_len", ofPrompt},
	{"request requested you your passed", ofRequest},
	{
		"max_tokens max_completion_tokens max_new_tokens max_output_tokens default_max_tokens output completion",
		ofAnswer,
	},
	{"context max_model_len max_seq_len max_num_tokens max_input_len max_total_tokens n_ctx", ofContext},
	{"token tokens long longer length", ofLength},
	{
		"but exceed exceeded exceeds greater larger less limit longer max maximum only overflow overflows range " +
			"too",
		comparison,
	},
	{
		"a about after allowed an and are as at available be been by can cannot characters configured " +
			"contain contains could count current currently decoder draft encoder endpoint endpoint's engine " +
			"first fit for from further given has have however if in initial into is it keep large least loaded " +
			"model model's models must not number of or plus process processed query query_token_len resulted " +
			"resulting should size so sum supported text than that the this to total trimmed truncated " +
			"truncation trying up was were when which will window with",
		between,
	},
}

// aboutWords returns what each of the words is about. Most VMs never see such a message.
var aboutWords = sync.OnceValue(readSayings)

func readSayings() map[string]saying {
	about := map[string]saying{}
	for i := range sayings {
		for rest := sayings[i].words; rest != ""; {
			var word string
			word, rest, _ = strings.Cut(rest, " ")
			about[word] |= sayings[i].about
		}
	}
	return about
}

// lengthMessage is what was read of a message about a length.
type lengthMessage struct {
	said   saying
	limit  int // the number behind what names a limit, 0 for none
	wanted int // that of the tokens of the answer that is wanted
	last   int // the latest number
	since  int // words since then
	before saying
	bound  bool // a sign of a comparison was the latest
}

// maxBetween is how many words stand between a number and what it is the number of: 8 tokens for the completion.
const maxBetween = 3

// lengthRefusal returns what a message in lower case says, as far as it is about a length.
func lengthRefusal(message string) Refusal {
	var m lengthMessage
	m.read(message)
	return m.refusal()
}

// read reads a message as far as it is about a length.
func (m *lengthMessage) read(message string) {
	for i := 0; i < len(message); {
		switch c := message[i]; {
		case c >= '0' && c <= '9':
			var n int
			n, i = numberAt(message, i)
			m.number(n)
		case isLetter(c):
			end := wordEnd(message, i)
			if !m.word(message[i:end]) {
				return
			}
			i = end
		case c == '\'' || c == '"' || c == '`': // names of parameters, or what a client has sent
			end := strings.IndexByte(message[i+1:], c) + i + 1
			if end <= i+1 || wordEnd(message, i+1) != end || !m.word(message[i+1:end]) {
				return
			}
			i = end + 1
		case c == '<' || c == '>':
			m.said |= comparison
			m.bound = true
			i++
		case strings.IndexByte(" \t\r\n.,:;()[]+-=/!", c) >= 0:
			i++
		default:
			return
		}
	}
}

// word takes the next word; it reports whether it is one that stands in such messages.
func (m *lengthMessage) word(word string) bool {
	about, known := aboutWords()[word]
	if !known {
		return false
	}
	if about == ofAnswer && m.wanted == 0 && m.last > 0 && m.since <= maxBetween {
		m.wanted = m.last
	}
	m.said |= about
	m.before = about
	m.since++
	return true
}

// number takes the next number.
func (m *lengthMessage) number(n int) {
	switch ofOthers := ofPrompt | ofRequest | ofContext; {
	case m.wanted == 0 && (m.before == ofAnswer || m.said&ofAnswer != 0 && m.said&ofOthers == 0):
		m.wanted = n
	case m.limit == 0 && (m.bound || m.said&ofContext != 0):
		m.limit = n
	}
	m.last, m.since, m.before, m.bound = n, 0, between, false
}

// refusal returns what the message says.
func (m *lengthMessage) refusal() Refusal {
	prompt := m.said&ofPrompt != 0 || m.said&(ofRequest|ofAnswer) == ofRequest
	switch {
	case m.said&comparison == 0, m.said&ofAnswer != 0 && !prompt: // a limit of answers
		return OtherRefusal
	case m.said&ofContext == 0 && (m.said&ofLength == 0 || !prompt):
		return OtherRefusal
	case m.limit > 0 && m.wanted >= m.limit:
		return AnswerTooLong
	}
	return ContextTooLong
}

// numberAt returns the number that begins at i, without what is behind its point, and the index behind it.
func numberAt(text string, i int) (n, end int) {
	for point := false; i < len(text); i++ {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			if !point && n < math.MaxInt/10-9 {
				n = 10*n + int(c-'0')
			}
		case (c == ',' || c == '.') && i+1 < len(text) && text[i+1] >= '0' && text[i+1] <= '9':
			point = point || c == '.'
		default:
			return n, i
		}
	}
	return n, i
}

// wordEnd returns the index behind the word that begins at i, in which there may be an apostrophe.
func wordEnd(text string, i int) int {
	for ; i < len(text); i++ {
		inside := text[i] == '\'' && i+1 < len(text) && isLetter(text[i+1])
		if !isLetter(text[i]) && !inside {
			break
		}
	}
	return i
}
