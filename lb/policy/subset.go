package policy

import (
	"time"

	"github.com/warmgate/warmgate/lb"
)

// within returns the candidates that the request may be sent to.
func (p *leastRequest) within(now time.Duration, r *lb.Request, l lb.List) lb.List {
	if r.Subset == nil {
		return l
	}
	digest := uint64(len(r.Subset))
	for _, endpoint := range r.Subset {
		digest = lb.Mix(digest ^ endpoint)
	}
	return p.subsets.Get(now, l, digest, func(cs []lb.Candidate) (left []lb.Candidate) {
		for i := range cs {
			if r.MayUse(cs[i].Addr) {
				left = append(left, cs[i])
			}
		}
		return left
	})
}
