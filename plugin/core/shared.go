package core

import (
	"time"

	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/engines"
	"github.com/warmgate/warmgate/plugin/gauges"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/request"
	"github.com/warmgate/warmgate/plugin/stores"
	"github.com/warmgate/warmgate/plugin/views"
	"github.com/warmgate/warmgate/plugin/waiters"
)

// shared is what all placements of a VM have in common.
type shared struct {
	*host.Env
	clusters clusters.Known    // what is known of each cluster
	views    *views.Views      // what configurations choose among
	stores   *stores.Stores    // where requests are counted
	waiters  *waiters.Waiters  // requests that wait in a queue
	scraping *engines.Scraping // metrics of engines
	lists    *engines.Lists    // of models that endpoints have
	gauges   *gauges.Gauges    // what the statistics show

	prompts *request.Prompts            // how prompts are cut into blocks
	wakeAt  func(now, at time.Duration) // has a tick come soon after that time
}
