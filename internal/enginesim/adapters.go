package enginesim

import (
	"slices"
	"strings"
	"time"
)

// adapters are the LoRA adapters of an engine. As in vLLM a batch has at most so many of them; each has a slot on the
// GPU, which it keeps until another one needs it. Not safe for concurrent use.
type adapters struct {
	max    int      // in a batch, and slots; 0 = the engine knows none
	loaded []string // least recently used first
	live   []adapterUse
	sets   []AdapterSet
}

// adapterUse counts the requests of an adapter that have had a token and not ended.
type adapterUse struct {
	name string
	n    int
}

// AdapterSet is a combination of adapters that had requests at once.
type AdapterSet struct {
	Names string        // joined by commas
	At    time.Duration // when this was last true
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
	if i := slices.IndexFunc(a.sets, func(t AdapterSet) bool { return t.Names == all }); i >= 0 {
		a.sets[i].At = now
		return
	}
	a.sets = append(a.sets, AdapterSet{all, now})
}

// batch returns the adapters of the requests, each once.
func (a *adapters) batch(running []*Request) []string {
	if a.max == 0 {
		return nil
	}
	var names []string
	for _, r := range running {
		if r.Adapter != "" && !slices.Contains(names, r.Adapter) {
			names = append(names, r.Adapter)
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
func (a *adapters) forget() { a.loaded, a.sets = nil, nil }
