package request

import (
	"github.com/warmgate/warmgate/metrics"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/engines"
	"github.com/warmgate/warmgate/plugin/host"
)

// Metrics is what a request has to do with the metrics of engines: it needs them, is counted at an endpoint until a
// sample shows it, and may bring a load report back.
type Metrics struct {
	Request     engines.Request // as those see it
	Waiter      engines.Waiter  // for lists of models
	Model       string          // that the request is for, "" where that does not matter
	Adapter     uint64          // that it is counted for at the chosen endpoint, 0 for none
	readsReport bool            // a load report in the response is read
	hidesReport bool            // and removed: the client has not requested it
}

// WantReport requests a load report from the endpoint that serves the request, unless the client does. Without a
// report, nothing is known that the next request could be placed by.
func (m *Metrics) WantReport(s host.GatewayStream, t *Traits, c *config.Config) {
	if !c.Engines.ORCA {
		return
	}
	m.readsReport = true
	t.Read(s)
	if m.hidesReport = t.Header(metrics.ORCARequestHeader) == ""; m.hidesReport {
		s.SetRequestHeader(metrics.ORCARequestHeader, metrics.ORCAFormat)
	}
}

// TakeReport returns the load report of a response, "" for none. A client that has not requested one does not get it.
func (m *Metrics) TakeReport(s host.GatewayStream) string {
	if !m.readsReport {
		return ""
	}
	report := s.ResponseHeader(metrics.ORCAHeader)
	if report != "" && m.hidesReport {
		s.RemoveResponseHeader(metrics.ORCAHeader)
	}
	return report
}

// Gone notes that the request has ended where it was placed: at an endpoint of the cluster, which is nil where
// none was found.
func (m *Metrics) Gone(cl *clusters.Cluster, endpoint string) {
	if cl == nil {
		return
	}
	cl.Metrics.Gone(&m.Request)
	if m.Adapter != 0 {
		cl.Engines.RemoveRequest(m.Adapter, endpoint)
		m.Adapter = 0
	}
}
