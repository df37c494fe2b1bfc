package quotasim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Config describes a model.
type Config struct {
	Name              string
	Slots             int     // calls at once
	TokensPerMinute   float64 // and how many its bucket holds
	RequestsPerMinute float64 // likewise
	Speed             float64 // how many times its [Work] a call takes
	Anthropic         bool    // it says what is left in Anthropic's headers, not in OpenAI's
}

// Work is what the headers of a call say of it.
type Work struct {
	Task   string        // whose call it is
	Output int           // tokens of the answer
	Time   time.Duration // until the answer, at speed 1
}

// The headers of Work.
const (
	taskHeader   = "X-Sim-Task"
	outputHeader = "X-Sim-Output-Tokens"
	timeHeader   = "X-Sim-Time-Us"
)

// Set writes the headers.
func (w Work) Set(h http.Header) {
	h.Set(taskHeader, w.Task)
	h.Set(outputHeader, strconv.Itoa(w.Output))
	h.Set(timeHeader, strconv.FormatInt(w.Time.Microseconds(), 10))
}

// workOf reads the headers.
func workOf(h http.Header) (w Work, err error) {
	if w.Output, err = strconv.Atoi(h.Get(outputHeader)); err != nil {
		return w, fmt.Errorf("%s: %w", outputHeader, err)
	}
	us, err := strconv.ParseInt(h.Get(timeHeader), 10, 64)
	if err != nil {
		return w, fmt.Errorf("%s: %w", timeHeader, err)
	}
	return Work{h.Get(taskHeader), w.Output, time.Duration(us) * time.Microsecond}, nil
}

// bytesPerToken is how many bytes of a body's messages make one token.
const bytesPerToken = 4

// Prompt returns the text of a prompt of so many tokens.
func Prompt(tokens int) string {
	text := make([]byte, tokens*bytesPerToken)
	for i := range text {
		text[i] = "abcdefg "[i%8]
	}
	return string(text)
}

// Call is one that has reached a model.
type Call struct {
	Task    string
	At      time.Time
	Charged float64       // tokens of the prompt and the most that the answer may have
	Used    float64       // tokens of prompt and answer
	Refused string        // by which limit: "", or one of the constants below
	Wait    time.Duration // of a refused one, until it would have been taken
	Left    bool          // its client has left before the answer
}

// The limits by which calls are refused.
const (
	BySlots    = "slots"
	ByTokens   = "tokens"
	ByRequests = "requests"
)

// Model is a model backend. It implements http.Handler.
type Model struct {
	Config

	mu       sync.Mutex
	limits   limits
	inflight int
	calls    []Call
}

// New returns a model with full buckets.
func New(c Config) *Model {
	return &Model{Config: c, limits: newLimits(c.TokensPerMinute, c.RequestsPerMinute, time.Now())}
}

// Calls returns all calls so far, in the order in which they came.
func (m *Model) Calls() []Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Call(nil), m.calls...)
}

// body is what is read of a call.
type body struct {
	MaxTokens int `json:"max_tokens"`
	Messages  []struct {
		Content string `json:"content"`
	} `json:"messages"`
}

// ServeHTTP implements http.Handler.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var b body
	text, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	work, wrong := workOf(r.Header)
	if err != nil || wrong != nil {
		http.Error(w, fmt.Sprint(err, wrong), http.StatusBadRequest)
		return
	}
	prompt := 0
	for _, message := range b.Messages {
		prompt += len(message.Content)
	}
	prompt /= bytesPerToken
	output := min(work.Output, b.MaxTokens)
	number, left := m.begin(work.Task, float64(prompt+b.MaxTokens), float64(prompt+output))
	left.write(w.Header(), m.Anthropic)
	if left.refused != "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprintf(w, `{"error":{"message":"Rate limit reached by %s","type":%q,"code":"rate_limit_exceeded"}}`,
			left.refused, left.refused)
		return
	}
	select {
	case <-time.After(time.Duration(float64(work.Time) * m.Speed)):
		m.end(number, false)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":%q,"object":"chat.completion","model":%q,"choices":[{"index":0,"message":{"role":`+
			`"assistant","content":"done"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,`+
			`"completion_tokens":%d,"total_tokens":%d}}`, work.Task, m.Name, prompt, output, prompt+output)
	case <-r.Context().Done():
		m.end(number, true)
	}
}

// begin takes in a call and returns its number, or refuses it.
func (m *Model) begin(task string, charged, used float64) (number int, left remains) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	refused := ""
	if m.inflight >= m.Slots {
		refused = BySlots
	}
	left = m.limits.take(now, charged, refused)
	m.calls = append(m.calls, Call{
		Task: task, At: now, Charged: charged, Used: used, Refused: left.refused, Wait: left.wait,
	})
	if left.refused == "" {
		m.inflight++
	}
	return len(m.calls) - 1, left
}

// end ends a call. One whose client has left is not given anything back: the model has worked for it.
func (m *Model) end(number int, left bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inflight--
	c := &m.calls[number]
	c.Left = left
	if !left {
		m.limits.giveBack(time.Now(), c.Charged-c.Used)
	}
}
