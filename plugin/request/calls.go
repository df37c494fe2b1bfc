package request

import (
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/learned"
)

// Some calls have the shape of requests, but no model works on them: [prompt.CallOf] knows them by method and path.
// They are placed by requests in flight, and nothing is learned from them; no budget, no cap and no queue is for them.
// Of a call that is only assumed to compute nothing, for want of a body or by its answers, caps, queues and health are.

// callOf returns what a call makes an engine do, and what tells it from others where no table lists it. bodiless is
// whether it has no body, and cl the cluster that it is for, nil if nothing is known of that.
func callOf(method, path string, bodiless bool, cl *clusters.Cluster) (what prompt.Call, pattern learned.CallPattern) {
	what = prompt.CallOf(method, path, bodiless)
	if what == prompt.Unlisted || what == prompt.Bodiless {
		pattern = learned.PatternOf(method, path, what == prompt.Bodiless)
		if cl != nil {
			what = cl.Calls.Judge(pattern, what)
		}
	}
	return what, pattern
}
