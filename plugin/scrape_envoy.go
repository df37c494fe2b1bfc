//go:build envoy

package main

import (
	"strings"

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
	call := httpCall{cluster: e.Cluster, within: e.Interval, headers: [][2]string{
		{":method", "GET"}, {":path", e.Path}, {":authority", where}, {headerOriginal, where}, {"accept", "text/plain"},
	}}
	if backend, _, _ := (sharedData{}).Get(core.KeyBackend); len(backend) > 0 {
		call.cluster = string(backend)
	}
	return call.send("an engine's metrics", func(_, size int) { answered(scraped(size)) })
}

// scraped returns the page of an answer, and the result of the scrape.
func scraped(size int) (page []byte, result string) {
	headers := allHeaders(callHeaders)
	if len(headers) == 0 {
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
	if page = callText(min(size, maxPage)); page == nil {
		return nil, core.ScrapeUnreachable
	}
	return page, core.ScrapeOK
}
