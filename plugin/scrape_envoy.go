//go:build envoy

package main

import (
	"strings"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"

	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/core"
)

// maxPage is how many bytes of a page are read: the metrics of eight copies of a model are half of it. The memory of a
// VM never shrinks.
const maxPage = 1 << 20

// headerOriginal is where an ORIGINAL_DST cluster reads where a request goes.
const headerOriginal = "x-envoy-original-dst-host"

// MetricsPage implements core.EnvoyCalls.
func (envoyCalls) MetricsPage(where string, c *config.Config, answered func(page []byte, result string)) error {
	e := &c.Engines
	headers := [][2]string{
		{":method", "GET"}, {":path", e.Path}, {":authority", where}, {headerOriginal, where}, {"accept", "text/plain"},
	}
	timeout := uint32(e.Interval.Milliseconds())
	return callOut("an engine's metrics", func(run func(func())) error {
		_, err := proxywasm.DispatchHttpCall(e.Cluster, headers, nil, nil, timeout, func(_, size, _ int) {
			run(func() { answered(scraped(size)) })
		})
		return err
	})
}

// scraped returns the page of an answer, and the result of the scrape.
func scraped(size int) (page []byte, result string) {
	headers, err := proxywasm.GetHttpCallResponseHeaders()
	if err != nil || len(headers) == 0 {
		return nil, core.ScrapeIncomplete
	}
	for _, h := range headers {
		switch {
		case h[0] == ":status" && h[1] == "503":
			return nil, core.ScrapeUnreachable
		case h[0] == ":status" && h[1] == "504":
			return nil, core.ScrapeTimeout
		case h[0] == ":status" && h[1] != "200":
			return nil, core.ScrapeStatus + " " + h[1]
		case h[0] == "content-encoding" && !strings.EqualFold(h[1], "identity"):
			return nil, core.ScrapeEncoded
		}
	}
	if size == 0 {
		return nil, core.ScrapeUnreadable
	}
	page, err = proxywasm.GetHttpCallResponseBody(0, min(size, maxPage))
	if err != nil {
		return nil, core.ScrapeUnreachable
	}
	return page, core.ScrapeOK
}
