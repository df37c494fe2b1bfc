//go:build envoy

package main

import (
	"strings"
	"time"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"

	"github.com/warmgate/warmgate/lb"
)

// maxPage is how much of a page is read: what eight copies of a model write is half of it. Memory that a VM has once had it keeps.
const maxPage = 1 << 20

// headerOriginal is where an ORIGINAL_DST cluster reads where a request goes.
const headerOriginal = "x-envoy-original-dst-host"

// Asks implements Gateway: one VM asks for all.
func (g *envoyGateway) Asks(now time.Duration, shared bool) bool {
	g.scraper.sweep()
	return g.scraper.asks(now, g.admin.serves, shared)
}

// Ask implements Gateway.
func (g *envoyGateway) Ask(now time.Duration, j *job, told func(addr string, page []byte, result string) bool) []lb.Endpoint {
	endpoints := g.endpoints(j)
	for _, addr := range g.scraper.due(now, j.cfg.Engines.Interval, j.cluster, endpoints) {
		g.scrape(j, addr, told)
	}
	return endpoints
}

// endpoints returns the endpoints of the job's cluster.
func (g *envoyGateway) endpoints(j *job) []lb.Endpoint {
	var list []lb.Endpoint
	for _, e := range j.cfg.EnvoyCfg.Endpoints {
		list = append(list, lb.Endpoint{Addr: e.Addr, Weight: e.Weight})
	}
	if view := g.admin.views[j.cluster]; view != nil && list == nil {
		list = view.Endpoints
	}
	return list
}

// scrape asks one engine.
func (g *envoyGateway) scrape(j *job, addr string, told func(addr string, page []byte, result string) bool) {
	e := &j.cfg.Engines
	where := at(addr, e.Port)
	headers := [][2]string{{":method", "GET"}, {":path", e.Path}, {":authority", where}, {headerOriginal, where}, {"accept", "text/plain"}}
	answered := func(page []byte, result string) {
		g.scraper.answered(g.Now(), e.Interval, j.cluster, addr, told(addr, page, result))
	}
	err := callOut("an engine's metrics", func(run func(func())) error {
		_, err := proxywasm.DispatchHttpCall(e.Cluster, headers, nil, nil, uint32(e.Interval.Milliseconds()), func(_, size, _ int) {
			run(func() { answered(scraped(size)) })
		})
		return err
	})
	if err != nil {
		answered(nil, heardFailed)
	}
}

// scraped returns the page of an answer, and what came of asking for it.
func scraped(size int) (page []byte, result string) {
	headers, err := proxywasm.GetHttpCallResponseHeaders()
	if err != nil || len(headers) == 0 {
		return nil, heardCut
	}
	for _, h := range headers {
		switch {
		case h[0] == ":status" && h[1] == "503":
			return nil, heardFailed
		case h[0] == ":status" && h[1] == "504":
			return nil, heardTimeout
		case h[0] == ":status" && h[1] != "200":
			return nil, heardStatus + " " + h[1]
		case h[0] == "content-encoding" && !strings.EqualFold(h[1], "identity"):
			return nil, heardEncoded
		}
	}
	if size == 0 {
		return nil, heardNothing
	}
	page, err = proxywasm.GetHttpCallResponseBody(0, min(size, maxPage))
	if err != nil {
		return nil, heardFailed
	}
	return page, heardOK
}
