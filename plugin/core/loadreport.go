package core

import "github.com/warmgate/warmgate/metrics"

// This file is what a request has to do with the metrics of engines: it needs them, is counted at an endpoint until
// they tell of it, and may bring a load report back.

// demandMetrics notes that the request needs the metrics of its cluster's engines.
func (s *Stream) demandMetrics() {
	v := s.plugin.vm
	if !s.cfg.Scrapes(v.kind) && !s.cfg.Engines.ORCA {
		return
	}
	if s.cluster.metrics.neededAt == 0 { // what another VM has published is read at once
		s.cluster.metrics.neededAt = v.now()
		v.scraping.refreshSamples(v.now())
	}
	v.scraping.demand.need(s.cluster, s.cfg)
	s.cluster.metrics.streams[s] = struct{}{}
	v.scraping.scrapeFor(s.context, s.cluster, s.cfg)
}

// requestPlaced takes it that the request is at the chosen endpoint, and asks that for a load report.
func (s *Stream) requestPlaced() {
	v := s.plugin.vm
	if !s.cfg.Shadow { // else the gateway has chosen
		s.cluster.health.ObserveGrant(&s.reservation.plan.Candidates[s.reservation.grant.Index], s.reservation.grant.Load)
		s.cluster.shares.Count(v.now(), s.chosen)
		if s.cluster.metrics.neededAt > 0 {
			s.adapter = s.cluster.engines.AddRequest(s.model, s.chosen, s.tokens)
		}
	}
	s.requestReport()
}

// requestReport asks whoever serves the request for a load report, unless the client does. Without a report, nothing is
// known that the next request could be placed by.
func (s *Stream) requestReport() {
	if !s.cfg.Engines.ORCA {
		return
	}
	s.reports = true
	s.traits.read(s)
	if s.asksReport = s.traits.header(metrics.ORCARequestHeader) == ""; s.asksReport {
		s.SetRequestHeader(metrics.ORCARequestHeader, metrics.ORCAFormat)
	}
}

// requestGone takes it that the request has ended where it was placed.
func (s *Stream) requestGone() {
	if s.cluster == nil {
		return
	}
	delete(s.cluster.metrics.streams, s)
	if s.adapter != 0 {
		s.cluster.engines.RemoveRequest(s.adapter, s.chosen)
		s.adapter = 0
	}
}

// readReport reads the load report of a response. A client that did not ask for one does not get it.
func (s *Stream) readReport() {
	if !s.reports {
		return
	}
	value, addr := s.ResponseHeader(metrics.ORCAHeader), s.addr
	if value == "" {
		return
	}
	if addr == "" { // the gateway has chosen
		addr = s.ServedBy()
	}
	if addr != "" {
		s.plugin.vm.scraping.addReport(s.now(), s.cfg, s.cluster.name, addr, value)
	}
	if s.asksReport {
		s.RemoveResponseHeader(metrics.ORCAHeader)
	}
}
