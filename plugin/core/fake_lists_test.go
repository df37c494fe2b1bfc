package core

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/engines"
)

// fakeLists is how endpoints list their models.
type fakeLists struct {
	models  map[int][]string // by endpoint; nil: it answers 404
	listing map[int]string   // other answers: pages, or results that begin with "!"
	silent  map[int]bool     // that do not answer
	noRoute bool             // the cluster does not exist
	asked   map[string]int   // how often, by address
}

// listTime is how long an endpoint takes to list its models.
const listTime = 3 * time.Millisecond

// ModelsPage implements Gateway.
func (g fakeGateway) ModelsPage(addr string, c *config.Config, answered func(page []byte, result string)) error {
	g.call("ModelsPage")
	if g.asked == nil {
		g.fakeProcess.asked = map[string]int{}
	}
	g.asked[addr]++
	if g.noRoute {
		return errors.New("bad argument")
	}
	vm := g.inside
	run := vm.Newest().Answer("a list of models")
	vm.Newest().CallSent()
	at := slices.IndexFunc(g.endpoints, func(e *fakeEndpoint) bool { return e.Addr == addr })
	after, page, result := listTime, g.listing[at], endpoints.ScrapeOK
	if c.Models.Path == "/metrics" { // where scenarios have them
		page = g.pages[addr]
	}
	switch names, ok := g.models[at]; {
	case g.silent[at]:
		after, result = engines.ModelsTimeout, endpoints.ScrapeTimeout
	case strings.HasPrefix(page, "!"):
		page, result = "", page[1:]
	case page == "" && !ok:
		result = endpoints.ScrapeStatus + " 404"
	case page == "":
		page = `{"object":"list","data":[{"id":"` + strings.Join(names, `"},{"id":"`) + `"}]}`
	}
	g.after(after, func() {
		g.in(vm, func() { run(func() { answered([]byte(page), result) }) })
	})
	return nil
}
