package loadgen

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// Arrivals is how the due times of an open-loop workload are spaced.
type Arrivals string

// The arrival processes.
const (
	Poisson  Arrivals = "poisson"  // exponential gaps: independent users
	Constant Arrivals = "constant" // equal gaps
)

// Workload describes traffic. Requests expands it; the same Workload always expands to the same requests.
type Workload struct {
	Seed     uint64
	Count    int      // number of requests
	Rate     float64  // mean arrivals per second
	Arrivals Arrivals // spacing of the arrivals; "" means Poisson
	Model    string   // model named in each body; "" means "sim"
	Models   []Model  // if any, the model of each request is drawn from these instead
	Prompt   Lengths  // prompt tokens
	Output   Lengths  // answer tokens, sent as max_tokens
	Stream   bool     // request server-sent events
}

// Model is one of several models, or adapters, that requests name.
type Model struct {
	Name   string
	Weight float64 // its share of the requests, relative to the weights of the others
}

// Request is one planned request.
type Request struct {
	ID        int
	Due       time.Duration // intended start, counted from the start of the run
	Model     string        // named in the body
	Path      string        // where it goes, in place of the path of Options.URL; "" = there
	Body      []byte        // JSON body
	Header    http.Header   // added to this request, beyond Options.Header
	Stream    bool          // the answer is expected as server-sent events that end with [DONE]
	Prompt    int           // prompt tokens
	MaxTokens int           // answer tokens requested
	Upload    Upload        // how the body travels
	Leave     Leave         // where the client gives up; the zero value stays to the end
	KeepText  bool          // keep the text of a stream in Sample.Text
	First     func()        // is called when the first of the answer is here; may be nil
}

// Requests expands the workload in order of due time.
func (w Workload) Requests() ([]Request, error) {
	if err := w.validate(); err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(w.Seed, 0x77617264))
	out := make([]Request, w.Count)
	var due time.Duration
	for i := range out {
		q, err := w.draw(r)
		if err != nil {
			return nil, err
		}
		q.ID, q.Due = i, due
		out[i] = q
		due += w.gap(r)
	}
	return out, nil
}

// draw returns a request without its place in the workload.
func (w Workload) draw(r *rand.Rand) (q Request, err error) {
	q = Request{Stream: w.Stream, Prompt: w.Prompt.Draw(r), MaxTokens: w.Output.Draw(r), Model: w.Model}
	switch {
	case len(w.Models) > 0:
		q.Model = drawModel(r, w.Models)
	case q.Model == "":
		q.Model = "sim"
	}
	q.Body, err = ChatBody(q.Model, Text(r, q.Prompt), q.MaxTokens, q.Stream)
	return q, err
}

func (w Workload) validate() error {
	switch {
	case w.Count <= 0:
		return errors.New("loadgen: a workload needs a positive count")
	case w.Rate <= 0:
		return errors.New("loadgen: a workload needs a positive rate")
	case w.Prompt == nil || w.Output == nil:
		return errors.New("loadgen: a workload needs prompt and output lengths")
	case w.Arrivals != "" && w.Arrivals != Poisson && w.Arrivals != Constant:
		return fmt.Errorf("loadgen: unknown arrivals %q", w.Arrivals)
	case len(w.Models) > 0 && weightOf(w.Models) <= 0:
		return errors.New("loadgen: models need positive weights")
	}
	return nil
}

func weightOf(models []Model) float64 {
	var sum float64
	for _, m := range models {
		sum += m.Weight
	}
	return sum
}

func drawModel(r *rand.Rand, models []Model) string {
	at := r.Float64() * weightOf(models)
	for _, m := range models {
		if at -= m.Weight; at < 0 {
			return m.Name
		}
	}
	return models[len(models)-1].Name
}

func (w Workload) gap(r *rand.Rand) time.Duration {
	mean := float64(time.Second) / w.Rate
	if w.Arrivals == Constant {
		return time.Duration(mean)
	}
	return time.Duration(mean * r.ExpFloat64())
}

// Text returns n words of three letters, each followed by a blank: four bytes a word, the usual size of a token, so
// that a server which estimates tokens from bytes and one which counts words agree.
func Text(r *rand.Rand, n int) string {
	const letters = "abcdefghijklmnop" // 16, so that 12 random bits make a word
	b := make([]byte, 0, 4*n)
	for range n {
		x := r.Uint32()
		b = append(b, letters[x&15], letters[x>>4&15], letters[x>>8&15], ' ')
	}
	return string(b)
}

type completionBody struct {
	Model         string          `json:"model"`
	Tools         json.RawMessage `json:"tools,omitempty"`
	Messages      []Message       `json:"messages,omitempty"`
	Prompt        string          `json:"prompt,omitempty"`
	MaxTokens     int             `json:"max_tokens"`
	Stream        bool            `json:"stream"`
	StreamOptions *streamOptions  `json:"stream_options,omitempty"`
	IgnoreEOS     bool            `json:"ignore_eos"`
}

// Message is one message of a chat.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// ChatBody renders a chat completion request with one user message. The end-of-sequence token is ignored, as benchmarks
// of real engines do, so that the answer has exactly maxTokens tokens.
func ChatBody(model, content string, maxTokens int, stream bool) ([]byte, error) {
	return ConversationBody(model, []Message{{Role: "user", Content: content}}, maxTokens, stream)
}

// ConversationBody is ChatBody for several messages.
func ConversationBody(model string, messages []Message, maxTokens int, stream bool) ([]byte, error) {
	return AgentBody(model, nil, messages, maxTokens, stream)
}

// AgentBody is ConversationBody with tools, a JSON array, or nil for none.
func AgentBody(model string, tools json.RawMessage, messages []Message, maxTokens int, stream bool) ([]byte, error) {
	return marshal(completionBody{Model: model, Tools: tools, Messages: messages, MaxTokens: maxTokens, Stream: stream})
}

// CompletionBody renders a request of the completions API, whose prompt is one text.
func CompletionBody(model, prompt string, maxTokens int, stream bool) ([]byte, error) {
	return marshal(completionBody{Model: model, Prompt: prompt, MaxTokens: maxTokens, Stream: stream})
}

func marshal(b completionBody) ([]byte, error) {
	b.IgnoreEOS = true
	if b.Stream {
		b.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	return json.Marshal(b)
}
