package main

import (
	"strings"
	"time"

	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/engines"
	"github.com/warmgate/warmgate/plugin/process"
)

// headerOriginal is where an ORIGINAL_DST cluster reads where a request goes.
const headerOriginal = "x-envoy-original-dst-host"

// backendName is how a policy of Envoy Gateway names its backend for the plugin's calls. Its cluster has another name,
// which a request has found, if there is such a backend.
const backendName = "warmgate-metrics"

// maxList is how many bytes of a list of models are read. One that is longer is cut off, and so is none.
const maxList = 256 << 10

// page is a page of a server that the plugin requests, through a cluster that takes the address from a header.
type page struct {
	cluster, path, where string
	what, accept         string
	within               time.Duration
	most                 int // bytes of it
}

// request requests the page. answered is called with it and a result: ScrapeOK, or why there is no page.
func (p *page) request(answered func(page []byte, result string)) error {
	call := httpCall{cluster: p.cluster, within: p.within, headers: [][2]string{
		{":method", "GET"}, {":path", p.path}, {":authority", p.where}, {headerOriginal, p.where}, {"accept", p.accept},
	}}
	if p.cluster == backendName {
		if backend, _, _ := (sharedData{}).Get(process.KeyBackend); len(backend) > 0 {
			call.cluster = string(backend)
		}
	}
	most := p.most
	return call.send(p.what, func(_, size int) { answered(answeredPage(size, most)) })
}

// answeredPage returns the page of an answer of size bytes, at most so many of it, and the result of the request.
func answeredPage(size, most int) (page []byte, result string) {
	headers := callHeaders()
	if len(headers) == 0 {
		return nil, endpoints.ScrapeIncomplete
	}
	for _, h := range headers {
		switch {
		case h[0] == ":status" && h[1] == "503":
			return nil, endpoints.ScrapeUnreachable
		case h[0] == ":status" && h[1] == "504":
			return nil, endpoints.ScrapeTimeout
		case h[0] == ":status" && h[1] != "200":
			return nil, endpoints.ScrapeStatus + " " + h[1]
		case h[0] == "content-encoding" && !strings.EqualFold(h[1], "identity"):
			return nil, endpoints.ScrapeEncoded
		}
	}
	if size == 0 {
		return nil, endpoints.ScrapeUnreadable
	}
	if page = callText(min(size, most)); page == nil {
		return nil, endpoints.ScrapeUnreachable
	}
	return page, endpoints.ScrapeOK
}

// ModelsPage implements host.Gateway.
func (gateway) ModelsPage(addr string, c *config.Config, answered func(page []byte, result string)) error {
	m := &c.Models
	p := page{
		cluster: m.Cluster, path: m.Path, where: addr, what: "a list of models", accept: "application/json",
		within: engines.ModelsTimeout, most: maxList,
	}
	return p.request(answered)
}
