package placement

import (
	"time"

	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/engines"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/request"
	"github.com/warmgate/warmgate/plugin/stores"
	"github.com/warmgate/warmgate/plugin/views"
	"github.com/warmgate/warmgate/plugin/waiters"
)

// Shared is what all placements of a VM have in common.
type Shared struct {
	*host.Env
	Clusters clusters.Known    // what is known of each cluster
	Views    *views.Views      // what configurations choose among
	Stores   *stores.Stores    // where requests are counted
	Waiters  *waiters.Waiters  // requests that wait in a queue
	Scraping *engines.Scraping // metrics of engines
	Lists    *engines.Lists    // of models that endpoints have

	Prompts *request.Prompts            // how prompts are cut into blocks
	WakeAt  func(now, at time.Duration) // has a tick come soon after that time
}
