package config

import (
	"math"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/push"
)

// Enabled reports whether requests wait.
func (q *Queue) Enabled() bool { return q.MaxWait > 0 }

// WaitsFromZero reports whether requests wait while their cluster has no endpoint: where it is one whose endpoints come
// and go.
func (c *Config) WaitsFromZero() bool {
	return c.Queue.FromZero && c.Queue.Enabled() && !c.AmongClusters() && len(c.EnvoyCfg.Endpoints) == 0
}

// Reserved returns how many places are reserved for a class, of all classes.
func (q *Queue) Reserved() (places int) {
	for i := range q.Classes {
		places += q.Classes[i].Reserved
	}
	return places
}

// Class returns the class with the name, and the default class if there is none. It must not be changed, and is nil
// only in a [Config] that is refused.
func (q *Queue) Class(name string) *Class { return q.classOf(name, "") }

// Has reports whether there is a class with the name.
func (q *Queue) Has(name string) bool { return q.named(name) != nil }

// PrioritySources returns where the priority of a request is that decides its class.
func (c *Config) PrioritySources() []Source {
	if !c.Queue.Enabled() {
		return nil
	}
	return c.Queue.PriorityFrom
}

// OutputSources returns where a request says how many tokens it expects of its answer, as far as tokens count.
func (c *Config) OutputSources() []Source {
	if c.Unit != lb.Tokens {
		return nil
	}
	return c.OutputFrom
}

// AtPriority returns the class of requests with the priority, as the request has it, nil for none: what is no whole
// number is none.
func (q *Queue) AtPriority(text string) (class *Class) {
	if text == "" {
		return nil
	}
	priority, err := strconv.Atoi(text)
	if err != nil {
		return nil
	}
	most := -NoPriority
	for i := range q.Classes {
		if c := &q.Classes[i]; c.FromPriority < NoPriority && c.FromPriority <= priority && c.FromPriority > most {
			class, most = c, c.FromPriority
		}
	}
	return class
}

// ByTurn reports whether the class of a request may follow from its turn in a conversation.
func (q *Queue) ByTurn() bool { return q.Enabled() && q.FirstTurn+q.LaterTurn != "" }

// TurnClass returns the class with the name, and if there is none that of a turn: one that begins a conversation, or a
// later one.
func (q *Queue) TurnClass(name string, later bool) *Class {
	if later {
		return q.classOf(name, q.LaterTurn)
	}
	return q.classOf(name, q.FirstTurn)
}

// classOf returns the class with the name, else with the other one, else the default class.
func (q *Queue) classOf(name, other string) *Class {
	if c := q.named(name); c != nil {
		return c
	}
	if c := q.named(other); c != nil {
		return c
	}
	if c := q.named(q.DefaultClass); c != nil || len(q.Classes) == 0 {
		return c
	}
	return &q.Classes[len(q.Classes)-1]
}

// classNames returns the names of the classes.
func (q *Queue) classNames() []string {
	names := make([]string, len(q.Classes))
	for i := range q.Classes {
		names[i] = q.Classes[i].Name
	}
	return names
}

func (q *Queue) named(name string) *Class {
	for i := range q.Classes {
		if q.Classes[i].Name == name {
			return &q.Classes[i]
		}
	}
	return nil
}

// TenantLength returns how many requests of one tenant wait at most, 0 if a tenant may take the whole queue.
func (q *Queue) TenantLength() int {
	if q.TenantMaxShare >= 1 {
		return 0
	}
	return max(q.places(q.TenantMaxShare), 1)
}

// places returns how many whole places a part of the queue has.
func (q *Queue) places(share float64) int {
	return int(math.Floor(share*float64(q.MaxLength) + roundingError))
}

// roundingError is more than what sums and products of parts of a queue are wrong by.
const roundingError = 1e-6

// Limits of classes. Their names become labels of statistics.
const (
	maxClasses   = 16
	maxClassName = 32
	maxHeader    = 128
)

const (
	wantClasses = `, want an object like {"interactive": {"weight": 8, "reserved": 0.1}, "batch": 1}`
	wantClass   = ", want a name of 1 to 32 of the characters a-z, 0-9, _, . and -"
	wantHeader  = `, want the name of a header in lower case, of at most 128 bytes`

	classLetters  = "abcdefghijklmnopqrstuvwxyz0123456789_.-"
	headerLetters = "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~"
)

// isWord reports whether s consists of at least one and at most limit of the letters.
func isWord(s, letters string, limit int) bool {
	foreign := func(r rune) bool { return !strings.ContainsRune(letters, r) }
	return s != "" && len(s) <= limit && !strings.ContainsFunc(s, foreign)
}

// header returns a setter of the name of a header of the queue.
func header(field func(*Queue) *string) setter {
	return headerName(func(c *Config) *string { return field(&c.Queue) })
}

// headerName returns a setter of the name of a header.
func headerName(field func(*Config) *string) setter {
	return word(field, headerLetters, maxHeader, wantHeader)
}

// className returns a setter of the name of a class.
func className(field func(*Queue) *string) setter {
	return word(func(c *Config) *string { return field(&c.Queue) }, classLetters, maxClassName, wantClass)
}

func word(field func(*Config) *string, letters string, limit int, want string) setter {
	return func(p *parser, c *Config, at string, v value) {
		if v.kind != kindString || !isWord(v.text, letters, limit) {
			p.badValue(at, v, want)
			return
		}
		*field(c) = strings.Clone(v.text)
	}
}

// setClasses reads {"name": {"weight": 1, "reserved": 0}}, where a number alone is a weight. Without a class it keeps
// those of the default.
func setClasses(p *parser, c *Config, at string, v value) {
	if v.kind != kindObject {
		p.badValue(at, v, wantClasses)
		return
	}
	if len(v.names) > maxClasses {
		p.bad(at, "got "+strconv.Itoa(len(v.names))+" classes, want at most "+strconv.Itoa(maxClasses))
		return
	}
	var classes []Class
	ids := map[uint16]string{}
	for i, name := range v.names {
		place := at + "[" + quote(name) + "]"
		if !isWord(name, classLetters, maxClassName) {
			p.bad(place, "no name of a class"+wantClass)
			continue
		}
		id := classID(name)
		switch other, used := ids[id]; {
		case other == name:
			p.bad(place, "written twice")
			continue
		case used:
			p.bad(place, "has the same digest as "+quote(other)+", want another name for one of them")
			continue
		}
		ids[id] = name
		class := p.class(place, v.items[i])
		class.ID, class.Name = id, strings.Clone(name)
		classes = append(classes, class)
	}
	order.By(classes, func(a, b *Class) bool {
		return a.Weight > b.Weight || a.Weight == b.Weight && a.Name < b.Name
	})
	for i := range classes {
		classes[i].Rank = uint8(i)
	}
	if len(classes) > 0 {
		c.Queue.Classes = classes
	}
}

// classID returns the id of a class, which is the same in all gateways and never 0.
func classID(name string) uint16 { return uint16(xxhash.Sum64String(name)%math.MaxUint16) + 1 }

// class reads a class: its weight, or an object with its members.
func (p *parser) class(at string, v value) Class {
	class := Class{Class: lb.Class{Weight: 1}, FromPriority: NoPriority}
	if v.kind != kindObject {
		if v.kind != kindNumber {
			p.badValue(at, v, `, want a weight or an object like {"weight": 8, "reserved": 0.1}`)
			return class
		}
		p.decode(&classKeys[0], &class, at, v)
		return class
	}
	p.members(classKeys, &class, at, v)
	return class
}

// checkQueue compares the keys of the queue, and completes its classes.
func (pt *part) checkQueue() {
	q := &pt.Queue
	if pt.written[keyClasses] && !pt.invalid[keyClasses] {
		pt.checkClasses()
	}
	for _, of := range [...]struct{ key, name string }{
		{keyDefaultClass, q.DefaultClass}, {keyFirstTurn, q.FirstTurn}, {keyLaterTurn, q.LaterTurn},
	} {
		if of.name != "" && q.named(of.name) == nil && !pt.invalid[keyClasses] {
			pt.badKey(of.key, "got "+quote(of.name)+", want "+oneOf(q.classNames())+", of "+keyClasses)
		}
	}
	if !q.Enabled() {
		for i := range queueKeys {
			if name := queueKeys[i].Name; name != keyMaxWait {
				pt.idle([]string{name}, "has no effect without queue.max_wait, since no request waits")
			}
		}
		return
	}
	switch {
	case pt.Shadow:
		pt.idle([]string{keyMaxWait}, "has no effect with shadow: no request waits that the gateway routes")
	case pt.Push == push.Blind && !pt.hasCap() && !pt.needs().Budget && !q.FromZero:
		pt.idle([]string{keyMaxWait}, "has no effect with push blind and without max_inflight and "+
			"max_inflight_tokens: no endpoint is ever full, so that no request waits")
	}
	if len(q.Classes) < 2 {
		pt.idle([]string{keyClassHeader, keyPriority, keyFirstTurn, keyLaterTurn}, "has no effect with one class")
	}
	checkPriorities(pt)
	if q.FairBy == BySession && pt.Unit != lb.Tokens {
		pt.idle([]string{keyFairBy}, `shares requests, not tokens, without unit "tokens"`)
	}
	if q.TenantHeader == "" {
		pt.idle([]string{keyTenantShare}, "has no effect without queue.tenant_header")
	}
}

// checkPriorities compares the priorities of classes with each other, and with where requests have theirs.
func checkPriorities(pt *part) {
	q, with := &pt.Queue, map[int]string{}
	for i := range q.Classes {
		c := &q.Classes[i]
		other, twice := with[c.FromPriority]
		switch at := keyClasses + "[" + quote(c.Name) + "].from_priority"; {
		case c.FromPriority == NoPriority:
		case twice:
			pt.badKey(at, "got that of "+quote(other)+", want another number for one of them")
		case len(q.PriorityFrom) == 0 && !pt.invalid[keyPriority]:
			pt.warn(pt.prefix+at, "has no effect without queue.priority_from, since no request has a priority")
			fallthrough
		default:
			with[c.FromPriority] = c.Name
		}
	}
	if len(with) == 0 && !pt.invalid[keyClasses] {
		pt.idle([]string{keyPriority}, "has no effect without from_priority of a class in queue.classes")
	}
}

// checkClasses computes the places that are reserved.
func (pt *part) checkClasses() {
	q, sum := &pt.Queue, 0.0
	for i := range q.Classes {
		c := &q.Classes[i]
		if c.share == 0 {
			continue
		}
		sum += c.share
		if c.Reserved = q.places(c.share); c.Reserved == 0 {
			pt.warn(pt.prefix+keyClasses+"["+quote(c.Name)+"].reserved", "has no effect: "+short(c.share)+
				" of max_length "+strconv.Itoa(q.MaxLength)+" is less than one place")
		}
	}
	if sum > 1-roundingError {
		pt.badKey(keyClasses, "got "+strconv.FormatFloat(sum, 'g', 6, 64)+
			" reserved in all, want less than 1: the rest of the queue is for every class")
	}
}

// hasCap reports whether a cap is set, or was meant to be.
func (pt *part) hasCap() bool {
	return pt.MaxInflight > 0 || pt.MaxInflightTokens > 0 ||
		pt.invalid[keyMaxInflight] || pt.invalid[keyMaxInflightTokens]
}

// checkPush compares when an endpoint takes requests with its caps.
func (pt *part) checkPush() {
	if pt.Push == push.Outstanding && !pt.hasCap() {
		pt.badKey(keyPush, `got "outstanding" without max_inflight and max_inflight_tokens, want one of them: `+
			"how many requests, or tokens, in flight an endpoint takes")
	}
	if pt.Push != push.Pending {
		pt.idle([]string{keyPushAhead}, "has no effect without push pending")
	}
}

// checkTokenCap compares what is about tokens with the unit: tokens are estimated from bodies, which are read only with
// that unit.
func (pt *part) checkTokenCap() {
	if pt.Unit != lb.Tokens && !pt.invalid[keyUnit] {
		pt.idle([]string{keyOutputFrom}, `has no effect without unit "tokens"`)
	}
	if pt.MaxInflightTokens > 0 && pt.Unit != lb.Tokens && !pt.invalid[keyUnit] {
		pt.badKey(keyMaxInflightTokens, "got "+strconv.Itoa(pt.MaxInflightTokens)+` with unit "requests", `+
			`want unit "tokens", or max_inflight in place of it: how many tokens a request has is not known otherwise`)
	}
}
