package request

import (
	"strconv"

	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
)

// Hints are what a request says of itself: how urgent it is, and how long its answer is likely to be.
type Hints struct{ priority, output Lookup }

// find looks for them, as [Session.Find] does for a session's key.
func (h *Hints) find(s host.GatewayStream, t *Traits, c *config.Config, body []byte, complete bool) {
	h.priority.find(s, t, c.PrioritySources(), body, complete)
	h.output.find(s, t, c.OutputSources(), body, complete)
}

// readsHints reports whether any of them is read.
func readsHints(c *config.Config) bool {
	return len(c.PrioritySources()) > 0 || len(c.OutputSources()) > 0
}

// mayBeInBody reports whether the body has to be read for one of them.
func (h *Hints) mayBeInBody(t *Traits, c *config.Config) bool {
	return h.priority.mayBeInBody(t, c.PrioritySources()) || h.output.mayBeInBody(t, c.OutputSources())
}

// outputTokens returns how many tokens the answer is likely to have, as the request says, 0 where it does not.
func (h *Hints) outputTokens() int {
	n, err := strconv.Atoi(h.output.Text)
	if err != nil {
		return 0
	}
	return max(n, 0)
}
