package models

import (
	"cmp"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// Lists is which models the endpoints of one cluster list, as the VMs of a gateway share it: one of them reads the
// lists for all.
type Lists struct {
	BegunAt time.Duration // when a VM last began to read them
	ReadAt  time.Duration // when all of them had last been read, or found not to be readable
	By      []List        // in the order of Endpoint
	Names   []string      // ids that some list has, ascending once Ended; not all where they are many or long
}

// List is which models an endpoint lists.
type List struct {
	Endpoint uint64        // hash of its address
	Since    time.Duration // when it was first read as it is
	Missed   int           // readings in a row since then that have failed
	Models   []uint64      // digests of the names, ascending; nil if it is not known
}

const (
	// MaxListEndpoints and maxListModels bound the lists of a cluster: endpoints, and models in all lists that differ.
	// What does not fit is not known.
	MaxListEndpoints = 256
	maxListModels    = 1 << 14
	// maxNames and maxNameBytes bound the names in answers to clients.
	maxNames     = 1 << 10
	maxNameBytes = 1 << 14
	// maxMissed is how many readings in a row may fail until a list does not count any more: an engine that is busy
	// answers late.
	maxMissed = 3
)

// Name returns the digest of a model's name in lists and in [lb.Request.ModelName].
func Name(name string) uint64 { return xxhash.Sum64String(name) }

// unnamed is what requests have that name no model.
var unnamed = Name("")

// ReadLists reads what Append has written. What is damaged is left out.
func ReadLists(raw []byte) (l Lists) {
	r := wire.NewReader(raw)
	l.BegunAt, l.ReadAt = r.Duration(), r.Duration()
	for range r.Count(1) {
		l.Names = append(l.Names, string(r.Text()))
	}
	for r.Len() > 0 {
		e := List{Endpoint: r.Uint64(), Since: r.Duration(), Missed: int(r.Byte())}
		same, n := int(r.Uint16()), r.Count(8)
		if same < len(l.By) {
			e.Models = l.By[same].Models
		}
		for range n {
			e.Models = append(e.Models, r.Uint64())
		}
		if !r.OK() {
			break
		}
		l.By = append(l.By, e)
	}
	return l
}

// Append appends the lists to dst: the times BegunAt and ReadAt as int64; the number of names, and each with its length
// in front, those as unsigned varints; for each endpoint its hash u64, Since i64, Missed u8, the index u16 of an
// endpoint in front of it that has the same list, 65535 for none, the number of its own models as an unsigned varint,
// and those as u64, all little-endian.
func (l *Lists) Append(dst []byte) []byte {
	w, models := wire.Writer(dst).Duration(l.BegunAt).Duration(l.ReadAt), 0
	names, size := 0, 0
	for names < len(l.Names) && size+len(l.Names[names]) <= maxNameBytes {
		size += len(l.Names[names])
		names++
	}
	w = w.Uvarint(uint64(names))
	for _, name := range l.Names[:names] {
		w = w.Text(name)
	}
	for i := range l.By {
		e := &l.By[i]
		same, own := -1, e.Models
		for k := 0; k < i && own != nil && same < 0; k++ {
			if slices.Equal(l.By[k].Models, own) {
				same = k
			}
		}
		if models += len(own); same >= 0 || models > maxListModels {
			models -= len(own)
			own = nil
		}
		w = w.Uint64(e.Endpoint).Duration(e.Since).Byte(byte(e.Missed)).Uint16(uint16(same)).Uvarint(uint64(len(own)))
		for _, m := range own {
			w = w.Uint64(m)
		}
	}
	return w
}

// of returns the list of an endpoint, nil if it was not tried to read one.
func (l *Lists) of(endpoint uint64) *List {
	if i, found := l.find(endpoint); found {
		return &l.By[i]
	}
	return nil
}

// find returns the index of an endpoint, or where it is to be inserted.
func (l *Lists) find(endpoint uint64) (i int, found bool) {
	return slices.BinarySearchFunc(l.By, endpoint, func(e List, endpoint uint64) int {
		return cmp.Compare(e.Endpoint, endpoint)
	})
}

// Knows reports whether it was tried to read the list of the endpoint.
func (l *Lists) Knows(addr string) bool { return l.of(lb.EndpointHash(addr)) != nil }

// Take takes over what a reading of an endpoint's list has come to: the ids in it and other names for them, or nil if
// there is no such list. late: there was no answer, which says nothing of the list that was read before until it
// happens three times in a row.
func (l *Lists) Take(now time.Duration, addr string, ids, aliases []string, late bool) {
	models := make([]uint64, 0, len(ids)+len(aliases))
	for _, name := range ids {
		m := Name(name)
		if models = append(models, m); len(l.Names) < maxNames && !l.has(m) {
			l.Names = append(l.Names, name)
		}
	}
	for _, name := range aliases {
		models = append(models, Name(name))
	}
	slices.Sort(models)
	models = slices.Compact(models)
	endpoint := lb.EndpointHash(addr)
	e := l.of(endpoint)
	if e == nil {
		if len(l.By) >= MaxListEndpoints {
			return
		}
		i, _ := l.find(endpoint)
		l.By = slices.Insert(l.By, i, List{Endpoint: endpoint, Since: now})
		e = &l.By[i]
	}
	switch {
	case late:
		e.miss()
	case len(models) == 0:
		e.Models, e.Missed = nil, 0
	case !slices.Equal(models, e.Models):
		e.Models, e.Missed, e.Since = models, 0, now
	default:
		e.Missed = 0
	}
}

func (e *List) miss() {
	if e.Missed++; e.Missed >= maxMissed {
		e.Missed, e.Models = maxMissed, nil
	}
}

// Ended notes that the lists of these endpoints have been read, or not. Others are forgotten after three times: they
// may be known to another VM only.
func (l *Lists) Ended(now time.Duration, addrs []string) {
	l.ReadAt = now
	asked := map[uint64]bool{}
	for _, addr := range addrs {
		asked[lb.EndpointHash(addr)] = true
	}
	left := l.By[:0]
	for _, e := range l.By {
		there := asked[e.Endpoint]
		if !there && e.Missed >= maxMissed {
			continue
		}
		if !there {
			e.miss()
		}
		left = append(left, e)
	}
	l.By = left
	names := l.Names[:0]
	for _, name := range l.Names {
		if l.has(Name(name)) {
			names = append(names, name)
		}
	}
	order.Up(names)
	l.Names = slices.Compact(names)
}

// has reports whether some list has the model.
func (l *Lists) has(model uint64) bool {
	for i := range l.By {
		if has(l.By[i].Models, model) {
			return true
		}
	}
	return false
}

// listGroup is the endpoints that list the same.
type listGroup struct {
	models []uint64
	digest uint64 // of the endpoints
}

// listed is what the lists of a cluster say.
type listed struct {
	Lists
	groups []listGroup
	all    []uint64 // models that some endpoint lists; ascending
	partly []uint64 // models that some endpoints list whose lists are known, but not all of these; ascending
}

// SetLists has requests sent by these lists: one whose model some endpoints list, and others do not, goes to those that
// do, or whose list is not known, while one of the former can be chosen. What requests for the model show since a list
// is as it is counts for more: an endpoint that has served one has the model, and one that has answered that there is
// none has not.
func (f *Facts) SetLists(lists Lists) {
	l := listed{Lists: lists}
	known := 0
	endpoints := map[uint64]int{} // that list a model
	for _, e := range lists.By {
		if e.Models == nil {
			continue
		}
		known++
		i := slices.IndexFunc(l.groups, func(g listGroup) bool { return slices.Equal(g.models, e.Models) })
		if i < 0 {
			i, l.groups = len(l.groups), append(l.groups, listGroup{models: e.Models})
		}
		l.groups[i].digest += lb.Mix(e.Endpoint)
		for _, m := range e.Models {
			endpoints[m]++
		}
	}
	for m, n := range endpoints {
		l.all = append(l.all, m)
		if n < known {
			l.partly = append(l.partly, m)
		}
	}
	slices.Sort(l.all)
	slices.Sort(l.partly)
	f.listed = l
}

// listsDigest is what distinguishes lists of candidates that differ by lists from those that differ by facts.
const listsDigest = 0x9e3779b97f4a7c15

// listing returns the candidates without those that do not list the model of a request, of which m is known, if there
// is one that does.
func (f *Facts) listing(now time.Duration, model uint64, m *modelFacts, list lb.List) lb.List {
	l := &f.listed
	if !has(l.partly, model) {
		return list
	}
	digest := uint64(listsDigest)
	for i := range l.groups {
		if g := &l.groups[i]; has(g.models, model) {
			digest += lb.Mix(g.digest) // if none is left of those, the list stays as it is
		} else {
			digest += g.digest
		}
	}
	if m != nil {
		for _, fact := range m.endpoints {
			if e := l.of(fact.endpoint); e != nil && e.contradicts(now, model, fact) {
				digest += lb.Mix(e.Endpoint + 1)
			}
		}
	}
	return f.lists.Get(now, list, digest, func(cs []lb.Candidate) []lb.Candidate {
		left, found := make([]lb.Candidate, 0, len(cs)), false
		for i := range cs {
			if e := l.of(lb.EndpointHash(lb.ServerOf(cs[i].Addr))); e != nil && e.Models != nil {
				if !e.serves(now, model, m) {
					continue
				}
				found = true
			}
			left = append(left, cs[i])
		}
		if !found || len(left) == len(cs) {
			return cs
		}
		return left
	})
}

// serves reports whether the endpoint has the model, of which m is known.
func (e *List) serves(now time.Duration, model uint64, m *modelFacts) bool {
	var fact *modelFact
	if m != nil {
		fact = m.find(e.Endpoint)
	}
	return has(e.Models, model) != (fact != nil && e.contradicts(now, model, fact))
}

// contradicts reports whether requests for the model have shown the contrary of what the list says.
func (e *List) contradicts(now time.Duration, model uint64, fact *modelFact) bool {
	if has(e.Models, model) {
		return fact.absent.waits(now)
	}
	return e.Models != nil && fact.servedAt > max(e.Since, fact.absent.from)
}

// Unlisted reports whether no endpoint of the view has the model: the lists of all are known, and were read the last
// time that was tried, none of them has it, and no endpoint has served it all the same. id and name are of requests for
// it, as for [Facts.Lacking].
func (f *Facts) Unlisted(now time.Duration, id, name uint64, v *lb.View) bool {
	l := &f.listed
	if has(l.all, name) || name == unnamed {
		return false
	}
	m := f.find(id)
	for i := range v.Endpoints {
		e := l.of(lb.EndpointHash(lb.ServerOf(v.Endpoints[i].Addr)))
		if e == nil || e.Models == nil || e.Missed > 0 || e.serves(now, name, m) {
			return false
		}
	}
	return len(v.Endpoints) > 0
}

func has(models []uint64, model uint64) bool {
	_, found := slices.BinarySearch(models, model)
	return found
}
