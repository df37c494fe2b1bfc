package agents

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// kind is what a session's client is.
type kind uint8

const (
	messages  kind = iota // of Anthropic's API, with a metadata line before its system prompt
	chat                  // of chat completions, with markers that move
	adapter               // the same, for a model that three of the servers have
	pictures              // of chat completions, with pictures
	responses             // of the Responses API, which the server keeps
	kindCount
)

// kinds are those of the sessions, in turn.
var kinds = [...]kind{messages, chat, adapter, messages, pictures, chat, adapter, responses}

// alone reports whether each session of the kind has a system prompt and tools of its own: where it goes does not
// follow from where the others are.
func (k kind) alone() bool { return k == adapter || k == responses }

// Models that requests name. The servers have the first one.
const (
	baseModel    = "sim"
	adapterModel = "sql-adapter"
	warmUpModel  = "warm-up" // of the requests of scripted.WarmUp, which all servers answer
)

// Lengths of a session in tokens, off round numbers.
const (
	systemTokens, toolTokens   = 4403, 5011 // which sessions of most kinds share
	leastContext, mostContext  = 1709, 30_600
	longContext, longEach      = 61_003, 16 // what one of so many sessions has beyond that
	turns, question, answer    = 8, 1131, 73
	leastPicture, mostPicture  = 50_021, 117_003 // bytes
	pictureEach, pictureTokens = 3, 1105         // a picture in each so many turns
)

// session is what the client of a script has beside its texts.
type session struct {
	kind     kind
	tools    json.RawMessage
	pictures map[int]string // by turn, data URLs
}

// workload is the traffic of a round. The same seed gives the same.
type workload struct {
	scripts  []traffic.Script
	sessions map[string]*session
}

// write returns n sessions.
func write(seed uint64, n int) *workload {
	r := rand.New(rand.NewPCG(seed, 0x6167656e7473))
	var systems [kindCount]loadgen.Message
	var tools [kindCount]json.RawMessage
	for k := range systems {
		systems[k], tools[k] = traffic.System(loadgen.Text(r, systemTokens)), traffic.Tools(r, toolTokens)
	}
	w := &workload{sessions: map[string]*session{}}
	w.scripts = traffic.Conversations(r, n, func(i int) []loadgen.Message {
		k := kinds[i%len(kinds)]
		if k.alone() {
			systems[k], tools[k] = traffic.System(loadgen.Text(r, systemTokens)), traffic.Tools(r, toolTokens)
		}
		w.sessions[strconv.Itoa(i)] = &session{kind: k, tools: tools[k], pictures: map[int]string{}}
		return []loadgen.Message{systems[k]}
	}, turns, question, answer)
	for i := range w.scripts {
		s := w.sessions[w.scripts[i].Session]
		context := leastContext * math.Pow(mostContext/leastContext, r.Float64())
		if i%longEach == 1 {
			context += longContext
		}
		first := w.scripts[i].Turns[0].Add
		first[len(first)-1].Content += loadgen.Text(r, int(context))
		for turn := 0; turn < turns && s.kind == pictures; turn += pictureEach {
			s.pictures[turn] = picture(r)
		}
	}
	return w
}

// picture returns the data URL of a picture.
func picture(r *rand.Rand) string {
	data := make([]byte, leastPicture+r.IntN(mostPicture-leastPicture))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(data)
}

// serverCount is how many servers there are, the last one without the adapter.
const serverCount = 4

// servers returns servers that have room for their fair part of all sessions, and half as much.
func (w *workload) servers() []vllmsim.Config {
	total, longest := int(kindCount)*(systemTokens+toolTokens)*serverCount, 0
	for i := range w.scripts {
		s := &w.scripts[i]
		held := s.Longest() + toolTokens + pictureTokens*len(w.sessions[s.Session].pictures)
		total, longest = total+held, max(longest, held)
	}
	list := make([]vllmsim.Config, serverCount)
	for i := range list {
		list[i] = traffic.Engine(16, max(total/serverCount*3/2, 2*longest))
		list[i].MaxModelLen, list[i].MaxLoras, list[i].Adapters = 2*longest, 2, []string{warmUpModel}
		if i < serverCount-1 {
			list[i].Adapters = append(list[i].Adapters, adapterModel)
		}
	}
	return list
}

// describe returns what is played, in words.
func (w *workload) describe() string {
	least, most := math.MaxInt, 0
	for i := range w.scripts {
		s, p := &w.scripts[i], pen{}
		var prompt []loadgen.Message
		for k := range s.Turns {
			t := &s.Turns[k]
			prompt = append(prompt, t.Add...)
			if k == 0 || k == turns-1 {
				size := len(p.write(s.Session, w.sessions[s.Session], false, k, t, prompt).Body)
				least, most = min(least, size), max(most, size)
			}
			prompt = append(prompt, traffic.Assistant(enginesim.Text(0, t.Answer)))
		}
	}
	return fmt.Sprintf("workload: sessions of %d turns in a closed loop; bodies of %d to %d KB; system prompt and "+
		"tools of %d tokens, a first message of %d to %d, one in %d of %d more, then %d tokens in and %d out a turn; "+
		"%d servers of %s",
		turns, least/1000, most/1000, systemTokens+toolTokens, leastContext, mostContext, longEach, longContext,
		question, answer, serverCount, compare.Describe(w.servers()[0]))
}

// Where requests go. The client of messages adds a query, as it really does.
const (
	messagesPath  = "/v1/messages?beta=true"
	countPath     = "/v1/messages/count_tokens?beta=true"
	tokenizePath  = "/tokenize"
	responsesPath = "/v1/responses"
)

// Members of bodies in the order in which SDKs write them: what comes before the messages in the prompt stands behind
// them, and in chats even the model.
type (
	messagesBody struct {
		Model    string          `json:"model"`
		MaxTok   int             `json:"max_tokens"`
		Messages []part          `json:"messages"`
		System   []part          `json:"system"`
		Tools    json.RawMessage `json:"tools"`
		Stream   bool            `json:"stream,omitempty"`
	}
	chatBody struct {
		Messages []part          `json:"messages"`
		Tools    json.RawMessage `json:"tools"`
		MaxTok   int             `json:"max_completion_tokens"`
		Stream   bool            `json:"stream"`
		Options  part            `json:"stream_options"`
		Model    string          `json:"model"`
	}
	responsesBody struct {
		Input    []part `json:"input"`
		Previous string `json:"previous_response_id,omitempty"`
		MaxTok   int    `json:"max_output_tokens"`
		Store    bool   `json:"store"`
		Stream   bool   `json:"stream"`
		Model    string `json:"model"`
	}
	part = map[string]any // a message, or a part of one
)

// pen writes requests. Every one has new values where clients have them.
type pen struct {
	requests atomic.Uint64
	previous func(session string) string // the id of the latest answer; nil = there is none
}

// write returns the request of a turn whose conversation so far is the prompt, in the API of the session's kind, or, if
// chatsOnly, as a chat.
func (p *pen) write(name string, s *session, chatsOnly bool, turn int, t *traffic.Turn, prompt []loadgen.Message,
) loadgen.Request {
	q := loadgen.Request{
		Path: compare.Path, Model: baseModel, Stream: true, KeepText: true, MaxTokens: t.Answer,
		Header: http.Header{scripted.SessionHeader: {name}},
	}
	if s.kind == adapter {
		q.Model = adapterModel
	}
	d := draft{session: s, prompt: prompt, turn: turn, nonce: p.requests.Add(1)}
	var body any
	switch {
	case s.kind == messages && !chatsOnly:
		q.Path = messagesPath
		body = messagesBody{
			Model: q.Model, MaxTok: t.Answer, Messages: d.talk(d.messages), System: d.system(), Tools: s.tools,
			Stream: true,
		}
	case s.kind == responses && !chatsOnly:
		q.Path = responsesPath
		b := responsesBody{
			Input:  []part{{"role": "user", "content": prompt[len(prompt)-1].Content}},
			MaxTok: t.Answer, Store: true, Stream: true, Model: q.Model,
		}
		if p.previous != nil {
			b.Previous = p.previous(name)
		}
		if b.Previous == "" {
			b.Input = append([]part{{"role": "system", "content": prompt[0].Content + string(s.tools)}}, b.Input...)
		}
		body = b
	default:
		body = chatBody{
			Messages: append([]part{{"role": "system", "content": d.system()}}, d.talk(d.chat)...), Tools: s.tools,
			MaxTok: t.Answer, Stream: true, Options: part{"include_usage": true}, Model: q.Model,
		}
	}
	var err error
	if q.Body, err = json.Marshal(body); err != nil {
		panic(err) // texts always marshal
	}
	return q
}

// draft is a request that is being written.
type draft struct {
	session *session
	prompt  []loadgen.Message // the system prompt, then questions and answers in turn
	turn    int
	nonce   uint64
}

// system returns the system prompt, of the kind messages behind what the client says of itself.
func (d *draft) system() []part {
	prompt := d.text(d.prompt[0].Content, false)
	if d.session.kind != messages {
		return []part{prompt}
	}
	line := fmt.Sprintf("x-anthropic-billing-header: cc_version=2.1.%d.%03x; cc_entrypoint=cli; cch=%05x;",
		d.nonce%7, d.nonce*2654435761%4096, d.nonce*40503%1048576)
	return []part{d.text(line, false), prompt}
}

func (d *draft) text(text string, marked bool) part {
	return marks(part{"type": "text", "text": text}, marked)
}

// marks adds a cache marker to a part.
func marks(p part, marked bool) part {
	if marked {
		p["cache_control"] = part{"type": "ephemeral"}
	}
	return p
}

// talk returns the messages behind the system prompt. In every second request the last question is marked, in others
// the last two. Ids are those of the call in an answer and of its result in the next question.
func (d *draft) talk(write func(i int, text, id string, marked bool) part) []part {
	var out []part
	for i := 1; i < len(d.prompt); i++ {
		marked := (i-1)/2 >= d.turn-int(d.nonce%2)
		out = append(out, write(i, d.prompt[i].Content, fmt.Sprintf("toolu_%x_%d", d.nonce, i/2), marked))
	}
	return out
}

// messages writes a message of Anthropic's API: an answer calls a tool, and a question has the result.
func (d *draft) messages(i int, text, id string, marked bool) part {
	switch {
	case d.prompt[i].Role == "assistant":
		call := part{"type": "tool_use", "id": id, "name": "tool_1", "input": part{"argument": i}}
		return part{"role": "assistant", "content": []part{d.text(text, false), call}}
	case i == 1:
		return part{"role": "user", "content": []part{d.text(text, marked)}}
	}
	result := part{"type": "tool_result", "tool_use_id": id, "content": []part{d.text(text, false)}}
	return part{"role": "user", "content": []part{marks(result, marked)}}
}

// chat writes a message of chat completions. The text of one that is marked is a list with one part, else a string.
// Sessions with pictures call no tools.
func (d *draft) chat(i int, text, id string, marked bool) part {
	m := part{"role": d.prompt[i].Role, "content": text}
	calls := d.session.kind != pictures
	switch picture := d.session.pictures[(i-1)/2]; {
	case d.prompt[i].Role == "assistant":
		if calls {
			function := part{"name": "tool_1", "arguments": fmt.Sprintf(`{"argument":%d}`, i)}
			m["tool_calls"] = []part{{"id": id, "type": "function", "function": function}}
		}
		return m
	case picture != "":
		image := part{"type": "image_url", "image_url": part{"url": picture}}
		m["content"] = []part{d.text(text, false), marks(image, marked)}
	case marked:
		m["content"] = []part{d.text(text, true)}
	}
	if i > 1 && calls {
		m["role"], m["tool_call_id"], m["name"] = "tool", id, fmt.Sprintf("call %d", d.nonce)
	}
	return m
}
