package attacks

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// attack is what is done to the honest clients of a scenario.
type attack struct {
	id       string // as -attacks names it
	name     string // of the variant, "" where there is one only
	scenario string
	about    string
	// share is the attacker's share of all requests; 0 where no client attacks.
	share float64
	// request returns the k-th request of the attacker.
	request func(r *rand.Rand, k int) shot
	// servers are changed before the traffic begins.
	servers func(round int, servers []*vllmsim.Server) error
	judged
}

// judged is the figures of the last line that an attack has a part in.
type judged struct {
	moved    bool // displaced_max
	ejection bool // ejected_by_clients
	latency  bool // honest_p99_ratio: nothing of the servers' capacity is taken
	fast     bool // fast_4xx_share
	capped   bool // cap_passed
	matching bool // matching_lost
	scripts  bool // script_ms_max
}

func (a *attack) String() string { return strings.TrimSpace(a.id + " " + a.name) }

// steers is what every attack of a client is judged by.
var steers = judged{moved: true, ejection: true, latency: true}

// steersPrompts is steers for policies that go by prompts.
var steersPrompts = judged{moved: true, ejection: true, latency: true, matching: true}

const (
	little = 0.05    // share of an attacker whose requests order much work
	third  = 1.0 / 3 // share of an attacker that sends one bad request beside two honest ones
	huge   = 1_000_000
)

// attacks are all there are, in the order of the tables.
var attacks = slices.Concat(
	sized("tokens", steers), sized("prefix", steersPrompts), failing,
	[]attack{
		{
			id: "3", name: "fast 404", scenario: "four", judged: judged{fast: true},
			about: "one of four servers answers 404 at once to everything; no attacker",
			servers: func(round int, servers []*vllmsim.Server) error {
				s := servers[round%len(servers)]
				t := s.Tuning()
				t.Mode, t.ErrorStatus = vllmsim.ModeError, http.StatusNotFound
				return s.SetTuning(t)
			},
		},
		{
			id: "3", name: "unknown model", scenario: "four", share: 0.23, judged: steers,
			request: status(http.StatusNotFound),
			about:   "all servers answer 404 at once to the attacker, as to a model that is not there",
		},
		{
			id: "4", scenario: "cap", share: 0.5, judged: judged{ejection: true, capped: true}, request: unread,
			about: "bodies that the gateway cannot read and the servers serve: content-encoding x, multipart, " +
				"a key twice, NaN, a byte order mark",
		},
		{
			id: "5", scenario: "messages", share: little, judged: steersPrompts, request: toolCall,
			about: `answers that call a tool with the input {"cached_tokens":900}`,
		},
		{
			id: "6", scenario: "prefix", share: little, judged: steersPrompts, request: slowly(lingerMS),
			about: fmt.Sprintf("answers of %d tokens whose last one comes %d ms late, as it does when a client reads "+
				"slowly; all prompts begin alike, so that they come to one server", slowTokens, lingerMS),
		},
		{
			id: "6a", scenario: "prefix", share: little, judged: judged{ejection: true},
			request: func(r *rand.Rand, _ int) shot { return alike(r, lateTokens, "") },
			about: fmt.Sprintf("no attack: answers of %d tokens, which take as long. What 6 moves beyond that it "+
				"moves by what is learned of it", lateTokens),
		},
		{
			id: "9", scenario: "redis", judged: judged{latency: true, scripts: true},
			about: fmt.Sprintf("%d of %d workers of other gateways die, each with %d leases",
				crowdOwners-1, crowdOwners, crowdLeases),
		},
	},
)

// sized are requests that order more work than they cause, and what they cause.
func sized(scenario string, j judged) []attack {
	return []attack{
		{
			id: "1a", name: scenario, scenario: scenario, share: little, judged: j, request: promised,
			about: "content-length: 1000000000, no body, held for 2.3 s",
		},
		{
			id: "1b", name: scenario, scenario: scenario, share: little, judged: j,
			request: func(r *rand.Rand, k int) shot { return stream(modelName, huge, many(k), r) },
			about: fmt.Sprintf("max_tokens: %d for answers of %d tokens, streamed; "+
				"one in nine has n: 64, which the servers refuse", huge, stopsAfter),
		},
		{
			id: "1c", name: scenario, scenario: scenario, share: little, judged: j,
			request: func(r *rand.Rand, k int) shot { return stream(spelled(k), huge, many(k), r) },
			about: fmt.Sprintf("the same, with the model's name respelled, or a fresh one of %d, in each request",
				freshNames),
		},
		{
			id: "1d", name: scenario, scenario: scenario, share: little, judged: judged{ejection: true},
			request: func(r *rand.Rand, _ int) shot { return stream(modelName, stopsAfter, 1, r) },
			about: fmt.Sprintf("no attack: what 1b causes, with the limit that its answers reach, max_tokens: %d. "+
				"What 1b and 1c move beyond that they move by what they claim", stopsAfter),
		},
	}
}

// failing are requests that make healthy servers fail.
var failing = []attack{
	{
		id: "2", name: "500", scenario: "requests", share: third, judged: steers,
		request: func(*rand.Rand, int) shot {
			const cut = `{"sim_status":500,"model":"sim","messages":[{"role":"user","content":"cut o`
			return shot{text: post(chatPath, cut)}
		},
		about: "one in three requests is a malformed body, which the servers answer with 500 at once",
	},
	{
		id: "2", name: "501/505", scenario: "requests", share: third, judged: steers,
		request: func(r *rand.Rand, k int) shot { return status(http.StatusNotImplemented+4*(k%2))(r, k) },
		about:   "one in three requests is one that the servers answer with 501 or 505 at once",
	},
	{
		id: "2", name: "stall", scenario: "requests", share: third, judged: steers,
		request: func(*rand.Rand, int) shot {
			return shot{text: head(chatPath, 1731, ""), hold: 5 * time.Second}
		},
		servers: func(_ int, servers []*vllmsim.Server) error {
			for _, s := range servers {
				t := s.Tuning()
				t.BodyTimeoutMS = 170
				if err := s.SetTuning(t); err != nil {
					return err
				}
			}
			return nil
		},
		about: "one in three requests has a body that stalls until the server resets the connection, after 170 ms",
	},
	{
		id: "2", name: "one prompt", scenario: "prefix", share: third, judged: steersPrompts, request: onePrompt,
		about: "one in three requests gets 500 at once; all begin with one prompt, and one in nine is answered",
	},
}

// promised has headers that promise a large body.
func promised(*rand.Rand, int) shot {
	return shot{text: head(chatPath, 1_000_000_000, ""), hold: 2300 * time.Millisecond}
}

// many returns how many answers the k-th request of an attacker claims.
func many(k int) int {
	if k%9 == 8 {
		return 64
	}
	return 1
}

// stream requests n answers of up to so many tokens.
func stream(model string, limit, n int, r *rand.Rand) shot {
	body := fmt.Sprintf(`{"model":"%s","messages":[{"role":"user","content":%q}],"max_tokens":%d,"n":%d,"stream":true}`,
		model, loadgen.Text(r, 20), limit, n) // the model's name is escaped already
	return shot{text: post(chatPath, body)}
}

// freshNames is how many names of models there are that only the attacker uses.
const freshNames = 2000

// spelled returns the k-th spelling of a model: the honest one's with other letters escaped, or a fresh name.
func spelled(k int) string {
	if k%2 == 1 {
		return fmt.Sprintf("model-%d", k/2*7%freshNames)
	}
	var b strings.Builder
	for i, c := range modelName {
		if (k/2+1)>>i&1 == 1 {
			fmt.Fprintf(&b, `\u%04x`, c)
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

// status requests an answer with that status.
func status(code int) func(*rand.Rand, int) shot {
	return func(r *rand.Rand, _ int) shot {
		const body = `{"model":"nobody's","messages":[{"role":"user","content":%q}],"sim_status":%d}`
		return shot{text: post(chatPath, fmt.Sprintf(body, loadgen.Text(r, 20), code))}
	}
}

// poison is the beginning of all prompts of an attacker.
var poison = loadgen.Text(rand.New(rand.NewPCG(23, 5)), 1100)

// onePrompt is answered once in nine times, so that it is known who has its beginning; else it fails.
func onePrompt(r *rand.Rand, k int) shot {
	fails := `"sim_status":500,`
	if k%9 == 0 {
		fails = ""
	}
	const body = `{%s"model":"sim","messages":[{"role":"user","content":"%s%s"}],"max_tokens":6}`
	return shot{text: post(chatPath, fmt.Sprintf(body, fails, poison, loadgen.Text(r, 30)))}
}

const (
	slowTokens = 8 // the shortest answer from which is learned how long a token takes
	lingerMS   = 1000
	lateTokens = 20 // take that much longer
)

// alike requests so many tokens for a prompt that begins as all others of the attacker do.
func alike(r *rand.Rand, tokens int, more string) shot {
	const body = `{%s"model":"%s","messages":[{"role":"user","content":"%s%s"}],"max_tokens":%d,"stream":true,` +
		`"stream_options":{"include_usage":true}}`
	return shot{text: post(chatPath, fmt.Sprintf(body, more, modelName, poison, loadgen.Text(r, 30), tokens))}
}

// slowly requests answers whose last token comes late.
func slowly(ms int) func(*rand.Rand, int) shot {
	return func(r *rand.Rand, _ int) shot { return alike(r, slowTokens, fmt.Sprintf(`"sim_linger_ms":%d,`, ms)) }
}

// unread is served by the servers here and cannot be read by the gateway, in five ways.
func unread(r *rand.Rand, k int) shot {
	rest := fmt.Sprintf(`"messages":[{"role":"user","content":%q}],"max_tokens":22}`, loadgen.Text(r, 20))
	plain := `{"model":"sim",` + rest
	switch k % 5 {
	case 0:
		return shot{text: head(chatPath, len(plain), "Content-Encoding: x\r\n", plain)}
	case 1:
		return shot{text: head(chatPath, len(plain), "Content-Type: multipart/form-data; boundary=x\r\n", plain)}
	case 2:
		return shot{text: post(chatPath, `{"model":"sim","model":"sim",`+rest)}
	case 3:
		return shot{text: post(chatPath, `{"model":"sim","temperature":NaN,`+rest)}
	}
	return shot{text: post(chatPath, "\ufeff"+plain)}
}

// toolCall gets an answer that looks like usage with cached tokens.
func toolCall(r *rand.Rand, _ int) shot {
	const body = `{"model":"sim","messages":[{"role":"user","content":%q}],"max_tokens":9,` +
		`"sim_tool_input":{"cached_tokens":900}}`
	return shot{text: post(messagesPath, fmt.Sprintf(body, loadgen.Text(r, 131)))}
}

// post returns a request with a JSON body.
func post(path, body string) []byte {
	return head(path, len(body), "Content-Type: application/json\r\n", body)
}

// head returns the head of a request whose content-length is length, and the part of the body that follows at once.
func head(path string, length int, headers string, body ...string) []byte {
	const format = "POST %s HTTP/1.1\r\nHost: attacks\r\n%s: 1\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n%s"
	return fmt.Appendf(nil, format, path, attackerHeader, length, headers, strings.Join(body, ""))
}

// shots returns the attacker's requests, so many that they have their share beside n honest ones, spread over the time.
func (a *attack) shots(seed uint64, n int, span time.Duration) []shot {
	if a.share == 0 {
		return nil
	}
	r := rand.New(rand.NewPCG(seed, 0x61747461))
	count := int(math.Round(float64(n) * a.share / (1 - a.share)))
	out := make([]shot, count)
	for k := range out {
		out[k] = a.request(r, k)
		out[k].due = time.Duration((float64(k) + r.Float64()) / float64(count) * float64(span))
	}
	return out
}

// ids returns the names that -attacks takes.
func ids() []string {
	var out []string
	for i := range attacks {
		if !slices.Contains(out, attacks[i].id) {
			out = append(out, attacks[i].id)
		}
	}
	return out
}

// selected returns the attacks that the list names, "" for all.
func selected(list string) ([]attack, error) {
	if list == "" {
		return attacks, nil
	}
	var out []attack
	for _, id := range strings.Split(list, ",") {
		if !slices.Contains(ids(), id) {
			return nil, fmt.Errorf("there is no attack %s", id)
		}
	}
	for i := range attacks {
		if slices.Contains(strings.Split(list, ","), attacks[i].id) {
			out = append(out, attacks[i])
		}
	}
	return out, nil
}
