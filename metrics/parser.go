package metrics

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"strconv"
	"strings"
)

// MaxBytes is how much of a page is read: as much as an engine with hundreds of copies of a model reports.
const MaxBytes = 4 << 20

// maxValue is the highest accepted value of an engine's field. Above it, sums lose units.
const maxValue = 1 << 53

// A Parser reads the pages of one kind of engine, or of all. It retains nothing of what it reads: it may be used for
// any number of endpoints and concurrently.
type Parser struct {
	engine  Engine
	targets []string
	wanted  map[string][]family
	first   [256]bool // [c]: a wanted name begins with byte c
}

// New returns a Parser for the engine, or for all engines with [AnyEngine]. It also finds up to [MaxTargets] gauges and
// counters by name: see [Target]. A counter may be named with or without _total. An invalid name is an error.
func New(engine Engine, names ...string) (*Parser, error) {
	if len(names) > MaxTargets {
		return nil, errors.New("metrics: more than " + strconv.Itoa(MaxTargets) + " names")
	}
	p := &Parser{engine: engine, wanted: map[string][]family{}}
	for _, f := range families {
		if engine == AnyEngine || f.engine == AnyEngine || engine == f.engine {
			p.addFamily(f)
		}
	}
	for i, name := range names {
		if !validName(name) {
			return nil, errors.New("metrics: " + strconv.Quote(name) + " is no name of a metric")
		}
		p.targets = append(p.targets, name)
		for rank, f := range targetFamilies(name) {
			f.field, f.rank = Target(i), uint8(rank)
			p.addFamily(f)
		}
	}
	return p, nil
}

// targetFamilies returns the families that the name of a target may mean: that of the name, the counter, or one that
// reports the same field in other versions of the engine.
func targetFamilies(name string) []family {
	list := []family{{name: name}, {name: name + "_total"}}
	for i := range families {
		f := &families[i]
		if (f.name != name && f.name != name+"_total") || f.value != "" || f.valueLabel != "" {
			continue
		}
		for j := range list {
			list[j].engine, list[j].label, list[j].mean = f.engine, f.label, f.mean
		}
		for _, other := range families {
			if other.engine == f.engine && other.field == f.field && other.name != f.name && !other.adds && !f.adds {
				list = append(list, other)
			}
		}
	}
	return list
}

// addFamily makes the family wanted.
func (p *Parser) addFamily(f family) {
	p.wanted[f.name] = append(p.wanted[f.name], f)
	p.first[f.name[0]] = true
}

// validName reports whether the text format allows the name.
func validName(name string) bool {
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == ':'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// Missing returns the names of the families that would have contained the given fields, for those that snap lacks.
// Fields that the engine never or not always reports are omitted. If no engine was recognized, the names of all engines
// are returned.
func (p *Parser) Missing(snap *Snapshot, of ...Field) []string {
	engine := cmp.Or(p.engine, snap.Engine) // configured or recognized
	var names []string
	for _, field := range of {
		if _, ok := snap.Value(field); ok {
			continue
		}
		if field >= firstTarget {
			names = append(names, p.targets[field-firstTarget])
			continue
		}
		for i := range families {
			f := &families[i]
			if f.field == field && !f.optional && (engine == AnyEngine || engine == f.engine) {
				names = append(names, f.String())
			}
		}
	}
	return names
}

// Parse reads a page into snap, replacing its content.
func (p *Parser) Parse(text []byte, snap *Snapshot) { p.sum(text, &pageSums{load: snap}) }

// sum passes over a page.
func (p *Parser) sum(text []byte, s *pageSums) {
	snap := s.load
	*snap = Snapshot{}
	if len(text) > MaxBytes {
		text, snap.Cut = text[:MaxBytes], true
	}
	var unwanted []byte // the latest name that is not wanted; most lines are of the same family as the previous one
	whole := text
	for end := bytes.IndexByte(text, '\n'); end >= 0; end = bytes.IndexByte(text, '\n') {
		line := trimBlanks(text[:end], ' ')
		text = text[end+1:]
		if len(line) == 0 || !p.first[line[0]] {
			continue
		}
		if n := len(unwanted); n < len(line) && line[n] == '{' && string(line[:n]) == string(unwanted) {
			continue
		}
		name, rest := splitName(line)
		wanted, ok := p.wanted[string(name)]
		if !ok {
			unwanted = name
			continue
		}
		s.name, s.wanted = name, wanted
		s.series(rest)
	}
	if snap.Cut = snap.Cut || len(text) > 0; snap.Cut {
		s.dropCut(whole[:len(whole)-len(text)], text)
	}
	s.finish()
}

// pageSums is the state of one pass over a page.
type pageSums struct {
	load   *Snapshot
	fields [fieldCount]sum
	name   []byte   // of the latest line with a wanted family
	wanted []family // the families with that name
	newest float64  // timestamp of the adapters in load

	// rank[d] is the GPU whose series count for copy d of the model, as ranks of tensor and pipeline parallelism,
	// plus 1.
	rank [64]uint32

	by *ranks // the same by data-parallel rank, nil where that is not wanted
}

// sum is the sum of the series of one field so far.
type sum struct {
	total  float64
	series int
	from   *family // the family of one of the series
}

// series reads what follows the name of a line.
func (s *pageSums) series(rest []byte) {
	labels, rest, ok := splitLabels(rest)
	if !ok {
		return
	}
	value, ok := number(rest)
	if !ok {
		return
	}
	if s.by != nil {
		if of := s.by.of(labels); of != nil {
			of.wanted = s.wanted
			of.take(labels, value)
		}
	}
	s.take(labels, value)
}

// take adds the value of a series to the fields of the families that it belongs to.
func (s *pageSums) take(labels []byte, value float64) {
	for i := range s.wanted {
		f := &s.wanted[i]
		if !f.accepts(labels) || f.engine == SGLang && s.isDuplicate(labels) {
			continue
		}
		v := value
		if f.valueLabel != "" {
			var ok bool
			if v, ok = number(label(labels, f.valueLabel)); !ok {
				continue
			}
		}
		if f.field == MaxAdapters {
			s.adapters(f, labels, value, v)
			continue
		}
		s.add(f, v)
	}
}

// add adds a value to the field of the family, unless a family with a lower rank was found.
func (s *pageSums) add(f *family, v float64) {
	if !(math.Abs(v) <= maxValue) || f.field < firstTarget && v < 0 {
		return
	}
	if f.field == KVUse {
		v = min(v, 1)
	}
	at := &s.fields[f.field]
	switch {
	case at.series == 0 || f.rank < at.from.rank:
		*at = sum{v, 1, f}
	case f.field == Started:
		at.total = max(at.total, v)
	case f.rank == at.from.rank:
		at.total += v
		at.series++
	}
}

// adapters reads a series that lists adapters, if it is newer than the previous ones. An engine has one such series for
// each state that it was in; the value is the time of the state.
func (s *pageSums) adapters(f *family, labels []byte, at, most float64) {
	if at < s.newest || !(most >= 0 && most <= maxValue) {
		return
	}
	s.newest = at
	s.fields[MaxAdapters] = sum{most, 1, f}
	s.load.Loaded.parse(label(labels, "running_lora_adapters"))
	s.load.Waiting.parse(label(labels, "waiting_lora_adapters"))
}

// isDuplicate reports whether a series repeats, for another GPU, one of the same copy of the model.
func (s *pageSums) isDuplicate(labels []byte) bool {
	tensor := label(labels, "tp_rank")
	if len(tensor) == 0 {
		return false
	}
	gpu := smallInt(tensor)<<16 + smallInt(label(labels, "pp_rank")) + 1
	counted := &s.rank[smallInt(label(labels, "dp_rank"))%uint32(len(s.rank))]
	if *counted == 0 {
		*counted = gpu
	}
	return *counted != gpu
}

// smallInt returns a number of up to three digits, 0 for anything else.
func smallInt(text []byte) uint32 {
	n := uint32(0)
	for _, c := range text {
		if c < '0' || c > '9' || len(text) > 3 {
			return 0
		}
		n = 10*n + uint32(c-'0')
	}
	return n
}

// dropCut discards the family of the last line if the page breaks off in a line that may belong to it: series may be
// missing. before is the page up to that line, tail is its beginning, which may be empty.
func (s *pageSums) dropCut(before, tail []byte) {
	last := bytes.TrimSuffix(before, []byte("\n"))
	last, _ = splitName(trimBlanks(last[bytes.LastIndexByte(last, '\n')+1:], ' '))
	tail = trimBlanks(tail, ' ')
	name, _ := splitName(tail)
	same := bytes.Equal(name, last) || len(name) == len(tail) && bytes.HasPrefix(last, tail)
	if !same || !bytes.Equal(last, s.name) {
		return
	}
	for i := range s.wanted {
		s.fields[s.wanted[i].field] = sum{}
		if s.by != nil {
			s.by.drop(s.wanted[i].field)
		}
	}
}

// engine returns the preferred one of the engines whose families were found, AnyEngine for none. How many requests were
// served says too little of an engine to recognize it by.
func (s *pageSums) engine() Engine {
	engine := AnyEngine
	for i := range s.fields[:Served] {
		if f := s.fields[i].from; f != nil && (engine == AnyEngine || f.engine < engine) {
			engine = f.engine
		}
	}
	return engine
}

// finish turns the sums into the Snapshot: those of one engine, and the targets.
func (s *pageSums) finish() {
	snap := s.load
	snap.Engine = s.engine()
	for i := range s.fields {
		field, from := Field(i), s.fields[i].from
		if from == nil || from.engine != snap.Engine && field < Started {
			continue
		}
		v := s.fields[i].total
		if from.mean {
			v /= float64(s.fields[i].series)
		}
		if !math.IsInf(v, 0) {
			snap.set(field, v)
		}
		if field >= firstTarget && strings.HasSuffix(from.name, "_total") {
			snap.counters |= 1 << field
		}
	}
	if _, ok := snap.Value(MaxAdapters); !ok {
		snap.Loaded, snap.Waiting = Adapters{}, Adapters{}
	}
	used, ok := snap.Value(KVUsedBlocks)
	all, ok2 := snap.Value(KVBlocks)
	if _, known := snap.Value(KVUse); !known && ok && ok2 && all > 0 {
		snap.set(KVUse, min(used/all, 1))
	}
}
