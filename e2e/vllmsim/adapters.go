package vllmsim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// adapters are the LoRA adapters of an engine. As in vLLM a batch has at most so many of them; each has a slot on the
// GPU, which it keeps until another one needs it. Not safe for concurrent use.
type adapters struct {
	max    int      // in a batch, and slots; 0 = the engine knows none
	loaded []string // least recently used first
	live   []adapterUse
	infos  []adapterInfo
}

// adapterUse counts the requests of an adapter that have had a token and not ended.
type adapterUse struct {
	name string
	n    int
}

// adapterInfo is a series of vllm:lora_requests_info: a combination of adapters, and when it was last true.
type adapterInfo struct {
	names string
	at    time.Duration
}

// arrive counts a request in.
func (a *adapters) arrive(name string) {
	if name == "" {
		return
	}
	for i := range a.live {
		if a.live[i].name == name {
			a.live[i].n++
			return
		}
	}
	a.live = append(a.live, adapterUse{name, 1})
}

// depart counts a request out.
func (a *adapters) depart(name string) {
	i := slices.IndexFunc(a.live, func(u adapterUse) bool { return u.name == name })
	if name == "" || i < 0 {
		return
	}
	if a.live[i].n--; a.live[i].n == 0 {
		a.live = slices.Delete(a.live, i, i+1)
	}
}

// update records which adapters have requests that have had a token. vLLM keeps every combination that it has ever
// exposed, and has the same names in both of its lists: those of requests that only wait are in neither.
func (a *adapters) update(now time.Duration) {
	if a.max == 0 {
		return
	}
	names := make([]string, len(a.live))
	for i := range a.live {
		names[i] = a.live[i].name
	}
	all := strings.Join(names, ",")
	if i := slices.IndexFunc(a.infos, func(t adapterInfo) bool { return t.names == all }); i >= 0 {
		a.infos[i].at = now
		return
	}
	a.infos = append(a.infos, adapterInfo{all, now})
}

// samples are the series of vllm:lora_requests_info; their values are times in Unix seconds.
func (a *adapters) samples(start time.Time) []sample {
	var out []sample
	for _, t := range a.infos {
		names := strconv.Quote(t.names)
		out = append(out, sample{
			labels: fmt.Sprintf(`max_lora="%d",running_lora_adapters=%s,waiting_lora_adapters=%s`, a.max, names, names),
			value:  float64(start.Add(t.at).UnixMicro()) / 1e6,
		})
	}
	return out
}

// batch returns the adapters of the sequences, each once.
func (a *adapters) batch(running []*sequence) []string {
	if a.max == 0 {
		return nil
	}
	var names []string
	for _, q := range running {
		if q.adapter != "" && !slices.Contains(names, q.adapter) {
			names = append(names, q.adapter)
		}
	}
	return names
}

// fits reports whether a batch with the given adapters may have this one, too.
func (a *adapters) fits(batch []string, name string) bool {
	return name == "" || len(batch) < a.max || slices.Contains(batch, name)
}

// load makes room for the adapters of a batch and returns how many were not there.
func (a *adapters) load(batch []string) (missing int) {
	for _, name := range batch {
		i := slices.Index(a.loaded, name)
		if i >= 0 {
			a.loaded = slices.Delete(a.loaded, i, i+1)
		} else {
			missing++
		}
		a.loaded = append(a.loaded, name)
	}
	a.loaded = slices.Delete(a.loaded, 0, max(0, len(a.loaded)-a.max))
	return missing
}

// forget empties the slots and the recorded combinations.
func (a *adapters) forget() { a.loaded, a.infos = nil, nil }
