package core

import (
	"github.com/warmgate/warmgate/metrics"
	"github.com/warmgate/warmgate/plugin/engines"
)

// metricsUse is what a request has to do with the metrics of engines: it needs them, is counted at an endpoint until a
// sample shows it, and may bring a load report back.
type metricsUse struct {
	pl          *placement
	request     engines.Request
	waiter      engines.Waiter // for lists of models
	model       string         // that the request is for, "" where that does not matter
	adapter     uint64         // that it is counted for at the chosen endpoint, 0 for none
	readsReport bool           // a load report in the response is read
	hidesReport bool           // and removed: the client has not requested it
}

// requestReport requests a load report from the endpoint that serves the request, unless the client does. Without a
// report, nothing is known that the next request could be placed by.
func (m *metricsUse) requestReport() {
	pl := m.pl
	if !pl.cfg.Engines.ORCA {
		return
	}
	m.readsReport = true
	pl.traits.read(pl)
	if m.hidesReport = pl.traits.header(metrics.ORCARequestHeader) == ""; m.hidesReport {
		pl.SetRequestHeader(metrics.ORCARequestHeader, metrics.ORCAFormat)
	}
}

// readReport reads the load report of a response. A client that has not requested one does not get it.
func (m *metricsUse) readReport() {
	pl := m.pl
	if !m.readsReport {
		return
	}
	value, addr := pl.ResponseHeader(metrics.ORCAHeader), pl.lease.addr
	if value == "" {
		return
	}
	if addr == "" { // the gateway has chosen
		addr = pl.ServedBy()
	}
	if addr != "" {
		pl.plugin.vm.scraping.AddReport(pl.lease.now(), pl.cfg, pl.cluster.name, addr, value)
	}
	if m.hidesReport {
		pl.RemoveResponseHeader(metrics.ORCAHeader)
	}
}

// requestGone notes that the request has ended where it was placed.
func (m *metricsUse) requestGone() {
	pl := m.pl
	if pl.cluster == nil {
		return
	}
	pl.cluster.metrics.Gone(&m.request)
	if m.adapter != 0 {
		pl.cluster.engines.RemoveRequest(m.adapter, pl.lease.chosen)
		m.adapter = 0
	}
}
