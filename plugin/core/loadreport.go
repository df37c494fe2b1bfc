package core

import "github.com/warmgate/warmgate/metrics"

// metricsUse is what a request has to do with the metrics of engines: it needs them, is counted at an endpoint until a
// sample shows it, and may bring a load report back.
type metricsUse struct {
	model       string // that the request is for, "" where that does not matter
	adapter     uint64 // that it is counted for at the chosen endpoint, 0 for none
	readsReport bool   // a load report in the response is read
	hidesReport bool   // and removed: the client has not requested it
}

// requestReport requests a load report from the endpoint that serves the request, unless the client does. Without a
// report, nothing is known that the next request could be placed by.
func (s *Stream) requestReport() {
	if !s.cfg.Engines.ORCA {
		return
	}
	s.metrics.readsReport = true
	s.traits.read(s)
	if s.metrics.hidesReport = s.traits.header(metrics.ORCARequestHeader) == ""; s.metrics.hidesReport {
		s.SetRequestHeader(metrics.ORCARequestHeader, metrics.ORCAFormat)
	}
}

// readReport reads the load report of a response. A client that has not requested one does not get it.
func (s *Stream) readReport() {
	if !s.metrics.readsReport {
		return
	}
	value, addr := s.ResponseHeader(metrics.ORCAHeader), s.lease.addr
	if value == "" {
		return
	}
	if addr == "" { // the gateway has chosen
		addr = s.ServedBy()
	}
	if addr != "" {
		s.plugin.vm.scraping.addReport(s.lease.now(), s.cfg, s.cluster.name, addr, value)
	}
	if s.metrics.hidesReport {
		s.RemoveResponseHeader(metrics.ORCAHeader)
	}
}

// requestGone notes that the request has ended where it was placed.
func (s *Stream) requestGone() {
	if s.cluster == nil {
		return
	}
	delete(s.cluster.metrics.streams, s)
	if s.metrics.adapter != 0 {
		s.cluster.engines.RemoveRequest(s.metrics.adapter, s.lease.chosen)
		s.metrics.adapter = 0
	}
}
