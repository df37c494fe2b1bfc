package live

import (
	"math"
	"reflect"
	"slices"

	"github.com/warmgate/warmgate/internal/state"
)

// window is of which time shares and times are, in ms.
const window = 10_000

// tokens is what the plugin had counted of prompts at a time.
type tokens struct {
	atMS                       int64
	prompt, expected, reported float64
}

// count notes the counts of prompts' tokens.
func (h *history) count(atMS int64, c *counted) {
	t := tokens{
		atMS: atMS, prompt: c.sum("warmgate_prompt_tokens_total", "", ""),
		expected: c.sum("warmgate_expected_cached_tokens_total", "", ""),
		reported: c.sum("warmgate_cached_tokens_total", "", ""),
	}
	if n := len(h.cached); n > 0 && t.prompt < h.cached[n-1].prompt {
		h.cached = nil
	}
	// The oldest one that is kept is the first that is not within the window.
	for len(h.cached) > 1 && h.cached[1].atMS <= atMS-window {
		h.cached = h.cached[1:]
	}
	h.cached = append(h.cached, t)
}

// shares adds the cached shares of prompts and the times to the first token. Counts of tokens are not by cluster: those
// of the only one that there is are its own, for others they are of decisions that were shown.
func (h *history) shares(c *counted, clusters []Cluster) {
	for i := range clusters {
		cluster := &clusters[i]
		cluster.Expected, cluster.Reported, cluster.TTFT = h.seen.of(cluster.Name)
		if len(clusters) == 1 && c.gateway.Statistics != nil {
			first, last := h.cached[0], h.cached[len(h.cached)-1]
			cluster.Expected = share(last.expected-first.expected, last.prompt-first.prompt)
			cluster.Reported = share(last.reported-first.reported, last.prompt-first.prompt)
		}
	}
}

// share returns a part of a whole, nil if there is none.
func share(part, of float64) *float64 {
	if of <= 0 {
		return nil
	}
	s := min(max(part/of, 0), 1)
	return &s
}

// seen is the decisions of the last time, by their IDs.
type seen struct {
	atMS int64 // by the gateway's clock
	by   map[string]state.Decision
}

// maxSeen is how many decisions are remembered of a gateway.
const maxSeen = 8192

// add takes the decisions of a state, and returns those that are new or of which more is known.
func (s *seen) add(of *state.State) (news []state.Decision) {
	s.atMS = of.AtMS
	for id, d := range s.by {
		if d.AtMS+max(d.TookMS, d.TTFTMS) < of.AtMS-6*window {
			delete(s.by, id)
		}
	}
	if s.by == nil || len(s.by) > maxSeen {
		s.by = map[string]state.Decision{}
	}
	for _, d := range of.Decisions {
		if before, known := s.by[d.ID]; !known || !reflect.DeepEqual(before, d) {
			news = append(news, d)
		}
		s.by[d.ID] = d
	}
	return news
}

// of returns what is known of a cluster in the window.
func (s *seen) of(cluster string) (expected, reported *float64, ttft *Quantiles) {
	var prompt, used, match, cached float64
	var times []float64
	for _, d := range s.by {
		if d.Cluster != cluster {
			continue
		}
		if d.TTFTMS > 0 && d.AtMS+d.TTFTMS > s.atMS-window {
			times = append(times, float64(d.TTFTMS))
		}
		if d.Used != nil && d.AtMS+d.TookMS > s.atMS-window {
			used += float64(d.Used.Prompt)
			cached += float64(d.Used.Cached)
		}
		for _, c := range d.Candidates {
			if c.Addr == d.Endpoint && d.AtMS > s.atMS-window {
				prompt += float64(d.Prompt)
				match += math.Round(float64(d.Prompt) * c.Matched) // whole tokens have one sum in any order
			}
		}
	}
	if len(times) > 0 {
		slices.Sort(times)
		ttft = &Quantiles{N: len(times), P50: quantile(times, 0.5), P90: quantile(times, 0.9)}
	}
	return share(match, prompt), share(cached, used), ttft
}

// quantile returns the smallest of the sorted values that so large a part of them is not above.
func quantile(sorted []float64, part float64) float64 {
	return sorted[int(math.Ceil(part*float64(len(sorted))))-1]
}
