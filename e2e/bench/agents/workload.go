package agents

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/e2e/vllmsim"
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
			prompt = append(prompt, traffic.Assistant(vllmsim.AnswerOf(0, t.Answer)))
		}
	}
	return fmt.Sprintf("workload: sessions of %d turns in a closed loop; bodies of %d to %d KB; system prompt and "+
		"tools of %d tokens, a first message of %d to %d, one in %d of %d more, then %d tokens in and %d out a turn; "+
		"%d servers of %s",
		turns, least/1000, most/1000, systemTokens+toolTokens, leastContext, mostContext, longEach, longContext,
		question, answer, serverCount, compare.Describe(w.servers()[0]))
}
