package metrics

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"strconv"
	"strings"
)

// MaxBytes is how much of a text is read: what an engine with hundreds of copies of a model writes, and no more of what
// somebody else does.
const MaxBytes = 4 << 20

// maxValue is the greatest value of an engine's field. Above it, sums lose units.
const maxValue = 1 << 53

// A Parser reads the texts of one kind of engine, or of all. It keeps nothing of what it read: it may be used for any number
// of endpoints, at the same time too.
type Parser struct {
	engine  Engine
	targets []string
	wanted  map[string][]family
	first   [256]bool // byte c: a wanted name begins with it
}

// New returns a Parser for the engine, or for whichever it turns out to be with [AnyEngine], which also finds up to [MaxTargets]
// gauges and counters by name: see [Target]. A counter may be named with or without _total. The error says which name cannot
// be one.
func New(engine Engine, names ...string) (*Parser, error) {
	if len(names) > MaxTargets {
		return nil, errors.New("metrics: more than " + strconv.Itoa(MaxTargets) + " names")
	}
	p := &Parser{engine: engine, wanted: map[string][]family{}}
	for _, f := range families {
		if engine == AnyEngine || engine == f.engine {
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

// targetFamilies returns the families that a target may mean: that of the name, or the counter, or one that tells the same in other
// versions of the engine.
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

func (p *Parser) addFamily(f family) {
	p.wanted[f.name] = append(p.wanted[f.name], f)
	p.first[f.name[0]] = true
}

// validName tells whether the text format allows the name.
func validName(name string) bool {
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == ':'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// Missing returns the names of the families that would have told the fields that a Load lacks. What its engine does not tell, or
// not always, is not missing. If no engine was found, it is all the names that were looked for.
func (p *Parser) Missing(l *Snapshot, of ...Field) []string {
	engine := cmp.Or(p.engine, l.Engine) // the one that was asked for, or found
	var names []string
	for _, field := range of {
		if _, ok := l.Value(field); ok {
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

// Parse reads a text into l, whatever l was before.
func (p *Parser) Parse(text []byte, l *Snapshot) {
	*l = Snapshot{}
	if len(text) > MaxBytes {
		text, l.Cut = text[:MaxBytes], true
	}
	s := pageSums{load: l}
	var unwanted []byte // the name of the last line that nobody wanted; most lines are of the same family as that before them
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
	if l.Cut = l.Cut || len(text) > 0; l.Cut {
		s.dropCut(whole[:len(whole)-len(text)], text)
	}
	s.finish()
}

// pageSums is the state of one pass over a text.
type pageSums struct {
	load   *Snapshot
	fields [fieldCount]sum
	name   []byte   // of the last line that was wanted
	wanted []family // what it tells
	newest float64  // the time of the adapters that the load has

	// rank[d] is the GPU whose series count for copy d of the model, as rank of tensor and pipeline parallelism plus 1.
	rank [64]uint32
}

// sum is what the series of one field come to so far.
type sum struct {
	total  float64
	series int
	from   *family // one of those that it came from
}

// series reads what stands behind the name of a line.
func (s *pageSums) series(rest []byte) {
	labels, rest, ok := splitLabels(rest)
	if !ok {
		return
	}
	value, ok := number(rest)
	if !ok {
		return
	}
	for i := range s.wanted {
		f := &s.wanted[i]
		if f.label != "" && string(label(labels, f.label)) != f.value {
			continue
		}
		if f.engine == SGLang && s.isDuplicate(labels) {
			continue
		}
		v := value
		if f.valueLabel != "" {
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
	case f.rank == at.from.rank:
		at.total += v
		at.series++
	}
}

// adapters reads the adapters of a series that is newer than those before. An engine has a series for each state that it was in, and
// its value is when.
func (s *pageSums) adapters(f *family, labels []byte, at, most float64) {
	if at < s.newest || !(most >= 0 && most <= maxValue) {
		return
	}
	s.newest = at
	s.fields[MaxAdapters] = sum{most, 1, f}
	s.load.Loaded.parse(label(labels, "running_lora_adapters"))
	s.load.Waiting.parse(label(labels, "waiting_lora_adapters"))
}

// isDuplicate tells whether a series tells again, for another GPU, what one before told of the same copy of the model.
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

// smallInt returns a number of at most three digits, 0 for anything else.
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

// dropCut forgets what the last line told if the text breaks off in a line that may be of the same family: there may have been
// more to add. before is the text without that line, tail is what there is of it, which may be nothing.
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
	}
}

// finish makes the Load of the sums: of one engine, and of the targets.
func (s *pageSums) finish() {
	l := s.load
	for i := range s.fields[:firstTarget] {
		if f := s.fields[i].from; f != nil && (l.Engine == AnyEngine || f.engine < l.Engine) {
			l.Engine = f.engine
		}
	}
	for i := range s.fields {
		field, from := Field(i), s.fields[i].from
		if from == nil || from.engine != l.Engine && field < firstTarget {
			continue
		}
		v := s.fields[i].total
		if from.mean {
			v /= float64(s.fields[i].series)
		}
		if !math.IsInf(v, 0) {
			l.set(field, v)
		}
		if field >= firstTarget && strings.HasSuffix(from.name, "_total") {
			l.counters |= 1 << field
		}
	}
	if _, ok := l.Value(MaxAdapters); !ok {
		l.Loaded, l.Waiting = Adapters{}, Adapters{}
	}
	used, ok := l.Value(KVUsedBlocks)
	all, ok2 := l.Value(KVBlocks)
	if _, told := l.Value(KVUse); !told && ok && ok2 && all > 0 {
		l.set(KVUse, min(used/all, 1))
	}
}
