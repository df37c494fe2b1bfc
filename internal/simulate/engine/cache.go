package engine

// Part is a part of a prompt that is the same in several prompts or in none.
type Part struct {
	Name   uint64 // of the prompt up to the end of the part; prompts with equal names are equal up to there
	Tokens int
	Answer bool // a model has generated it
}

// kvCache is the memory of an engine, in tokens: entries that requests use, entries that none uses, and what requests
// have of their own. Entries that none uses are on a list, of which the first is evicted first.
type kvCache struct {
	entries []entry // entries[0] closes the ring of the list: its next is evicted first
	byName  map[uint64]int32
	vacant  []int32 // numbers of entries without a name, for new ones
	size    int
	used    int // tokens of requests
	idle    int // tokens of entries that no request uses
}

// entry is a part that has been computed.
type entry struct {
	name       uint64
	tokens     int // of the part
	kept       int // of these, from its beginning on, that are still there
	refs       int // requests that use it
	prev, next int32
}

func newKVCache(size int) *kvCache {
	return &kvCache{entries: make([]entry, 1), byName: map[uint64]int32{}, size: size}
}

// free is how many tokens fit without an eviction.
func (c *kvCache) free() int { return c.size - c.used - c.idle }

// find returns how many tokens of the prompt are there, from its beginning on, and how many of those no request uses.
func (c *kvCache) find(prompt []Part) (tokens, idle int) {
	for i := range prompt {
		id, ok := c.byName[prompt[i].Name]
		if !ok {
			break
		}
		e := &c.entries[id]
		tokens += e.kept
		if e.refs == 0 {
			idle += e.kept
		}
		if e.kept < e.tokens {
			break
		}
	}
	return tokens, idle
}

// acquire has a request use what find has found. It returns the entries, behind those in dst.
func (c *kvCache) acquire(dst []int32, prompt []Part) []int32 {
	for i := range prompt {
		id, ok := c.byName[prompt[i].Name]
		if !ok {
			break
		}
		e := &c.entries[id]
		if e.refs == 0 {
			c.unlink(id)
			c.idle -= e.kept
			c.used += e.kept
		}
		e.refs++
		dst = append(dst, id)
		if e.kept < e.tokens {
			break
		}
	}
	return dst
}

// take makes room for so many tokens of a request's own. It takes nothing and reports false if requests use the rest.
func (c *kvCache) take(tokens int) bool {
	if tokens > c.free()+c.idle {
		return false
	}
	for missing := tokens - c.free(); missing > 0; {
		id := c.entries[0].next
		e := &c.entries[id]
		n := min(e.kept, missing)
		e.kept -= n
		c.idle -= n
		missing -= n
		if e.kept == 0 {
			c.unlink(id)
			delete(c.byName, e.name)
			c.vacant = append(c.vacant, id)
		}
	}
	c.used += tokens
	return true
}

// name makes an entry of so many tokens of a part that a request has of its own, and has the request use it. It reports
// false, and changes nothing, if there is an entry of that name, or no token.
func (c *kvCache) name(p Part, tokens int) (id int32, ok bool) {
	if _, taken := c.byName[p.Name]; taken || tokens == 0 {
		return 0, false
	}
	if n := len(c.vacant); n > 0 {
		id, c.vacant = c.vacant[n-1], c.vacant[:n-1]
	} else {
		id = int32(len(c.entries))
		c.entries = append(c.entries, entry{})
	}
	c.entries[id] = entry{name: p.Name, tokens: p.Tokens, kept: tokens, refs: 1}
	c.byName[p.Name] = id
	return id, true
}

// extend gives an entry so many tokens of its part, which a request has computed and has of its own. It returns by how
// many these are more than before.
func (c *kvCache) extend(id int32, tokens int) (more int) {
	e := &c.entries[id]
	more = max(0, tokens-e.kept)
	e.kept += more
	return more
}

// release gives up entries, and tokens that a request has of its own. The last entry is evicted first.
func (c *kvCache) release(ids []int32, own int) {
	c.used -= own
	for i := len(ids) - 1; i >= 0; i-- {
		e := &c.entries[ids[i]]
		if e.refs--; e.refs == 0 {
			c.used -= e.kept
			c.idle += e.kept
			c.append(ids[i])
		}
	}
}

// append puts an entry at the end of the list.
func (c *kvCache) append(id int32) {
	last := c.entries[0].prev
	c.entries[id].prev, c.entries[id].next = last, 0
	c.entries[last].next, c.entries[0].prev = id, id
}

// unlink takes an entry off the list.
func (c *kvCache) unlink(id int32) {
	e := &c.entries[id]
	c.entries[e.prev].next, c.entries[e.next].prev = e.next, e.prev
}
