package engines

import "github.com/warmgate/warmgate/lb"

// Ranks returns how many data-parallel ranks a server has, as its metrics show it; 0 for one that shows none.
func (g *Samples) Ranks(server string) (n int) {
	for n < lb.MaxRanks && g.engines[lb.RankAddr(server, n)] != nil {
		n++
	}
	return n
}

// RanksVersion is another number whenever Ranks of a server has changed.
func (g *Samples) RanksVersion() uint64 { return g.ranksVersion }
