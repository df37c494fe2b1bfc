package learned

import (
	"cmp"
	"math"
	"time"

	"github.com/warmgate/warmgate/lb/answer"
)

const (
	// maxModels is how many models a VM knows. Their names come from clients, and there are engines that accept any
	// name.
	maxModels = 256
	// maxEvidence is how many answers count when the table is full; halfLife is when half as many do.
	maxEvidence = 256
	halfLife    = 10 * time.Minute
	// warmup is how many answers are averaged. Each later one moves an estimate by learnedShare, also after a time
	// without any.
	warmup       = 16
	learnedShare = 1.0 / warmup
	// maxFactor is by which factor, up or down, one answer may differ from what is known; beyond, it counts as that.
	maxFactor    = 4
	maxLogFactor = 2 * math.Ln2 // its logarithm
)

// Key is a model of a cluster, for one tenant where a header names tenants, and for one class where requests wait
// by class: classes share tokens, and answers to batches may be longer. What is learned starts again with another
// configured guess.
type Key struct {
	Cluster string
	Model   uint64 // hash of its name, 0 for all
	Class   uint16 // 0 for all
	Tenant  uint64 // 0 for all
	Guess   Guess
}

// Guess is what is configured as typical, until usage is known.
type Guess struct {
	BytesPerToken float64
	Tokens        int // of an answer, and of a prompt that has not come yet; at least 1, so that it can be multiplied
}

// wider returns the key that includes this one: the model for all tenants, for all classes, all models of the cluster.
func (k Key) wider() (Key, bool) {
	switch {
	case k.Tenant != 0:
		k.Tenant = 0
	case k.Class != 0:
		k.Class = 0
	case k.Model != 0:
		k.Model = 0
	default:
		return k, false
	}
	return k, true
}

// Typical is what usage in answers has shown of requests like one. What no answer has reported is 0.
type Typical struct {
	BytesPerToken float64 // of prompts
	Prompt        float64 // tokens of a prompt
	Cached        float64 // the share of prompts that is found in KV caches
	Output        float64 // tokens of an answer under the limit of the request, if it has one
	Unlimited     float64 // tokens of an answer without a limit
	media         float64 // tokens of an image, a sound or a file of a size that is not known
}

// model is what usage in answers has shown of a model.
type model struct {
	bytesPerToken float64
	prompt        float64
	cached        float64 // share of prompts
	media         *mediaTokens
	outputs       lengths
	answers       int      // with usage, warmup at most
	recent        evidence // of these answers
}

// evidence is how many answers there were, maxEvidence at most and halved every halfLife, and when the last one ended.
type evidence struct {
	count int
	at    time.Duration
}

// left returns how many answers count by now.
func (e evidence) left(now time.Duration) int { return e.count >> min((now-e.at)/halfLife, 62) }

// add counts one more answer.
func (e *evidence) add(now time.Duration) { *e = evidence{min(e.left(now)+1, maxEvidence), now} }

// observe averages an answer in: to a prompt with textBytes bytes of text, 0 if that is not known, under the client's
// limit in tokens, 0 for none. An output below 0 is not known.
func (l *model) observe(now time.Duration, typical Typical, textBytes, limit int, u answer.Usage) {
	l.recent.add(now)
	l.answers = min(l.answers+1, warmup)
	share := 1 / float64(l.answers)
	if textBytes > 0 && u.Prompt > 0 {
		const minBytes, maxBytes = 0.1, 100 // as in the configuration
		latest := min(max(float64(textBytes)/float64(u.Prompt), minBytes), maxBytes)
		l.bytesPerToken = toward(cmp.Or(l.bytesPerToken, typical.BytesPerToken), latest, share)
	}
	if u.Prompt > 0 {
		l.prompt = toward(cmp.Or(l.prompt, typical.Prompt), float64(u.Prompt), share)
		l.cached += (float64(min(u.Cached, u.Prompt))/float64(u.Prompt) - l.cached) * share
	}
	if u.Output >= 0 {
		l.outputs.observe(limit, u.Output, typical.Output)
	}
}

// toward moves what is known, 0 for nothing, by a share of the way to the latest, which is above 0.
//
// It does so on a logarithmic scale, on which steps up and down are bounded alike: answers that are a minority shift
// the estimate by a bounded factor, however far off they are. This geometric mean is below the arithmetic one where
// lengths have a long tail, for all models alike; loads are only compared with each other.
func toward(known, latest, share float64) float64 {
	if known == 0 {
		return latest
	}
	times := min(max(latest/known, 1.0/maxFactor), maxFactor)
	return known * math.Pow(times, share)
}

// Models is what a VM has learned of models. Those without answers of their own share what is known of all in the
// cluster.
type Models map[Key]model

// Typical returns what is known of requests under the key with that limit on the answer, 0 for none, completed by what
// is known of wider keys and by the guess.
func (m Models) Typical(key Key, limit int) (l Typical) {
	output, unlimited := expectation{limit: limit}, expectation{}
	for wider := true; wider; key, wider = key.wider() {
		known := m[key]
		if l.Prompt == 0 {
			l.Cached = known.cached
		}
		l.BytesPerToken = cmp.Or(l.BytesPerToken, known.bytesPerToken)
		l.Prompt = cmp.Or(l.Prompt, known.prompt)
		if known.media != nil {
			l.media = cmp.Or(l.media, known.media.any)
		}
		output.add(&known.outputs)
		unlimited.add(&known.outputs)
	}
	l.BytesPerToken = cmp.Or(l.BytesPerToken, key.Guess.BytesPerToken)
	l.Prompt = cmp.Or(l.Prompt, float64(key.Guess.Tokens))
	l.media = cmp.Or(l.media, typicalMedia)
	l.Output, l.Unlimited = output.or(key.Guess), unlimited.or(key.Guess)
	return l
}

// Observe averages in an answer to a request under the key.
func (m Models) Observe(now time.Duration, key Key, textBytes, limit int, u answer.Usage) {
	typical := m.Typical(key, limit)
	for wider := true; wider; key, wider = key.wider() {
		l, known := m[key]
		if !known && len(m) >= maxModels {
			m.drop(now)
		}
		l.observe(now, typical, textBytes, limit, u)
		m[key] = l
	}
}

// drop removes the model with the least evidence.
func (m Models) drop(now time.Duration) {
	var rarest Key
	fewest := maxEvidence + 1
	for key, l := range m {
		if n := l.recent.left(now); n < fewest {
			rarest, fewest = key, n
		}
	}
	delete(m, rarest)
}
