package simulate

import (
	"strconv"
	"time"

	"github.com/warmgate/warmgate/internal/simulate/engine"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/metrics"
)

// scraper reads the metrics of engines as the plugin does, from pages like vLLM's, whatever engine a configuration
// names: that one is simulated by these.
type scraper struct {
	parser *metrics.Parser
	page   []byte
	addrs  []string
}

func newScraper(p *product) (*scraper, error) {
	parser, err := metrics.New(metrics.VLLM)
	if err != nil {
		return nil, err
	}
	s := &scraper{parser: parser}
	for i := range p.view.Endpoints {
		s.addrs = append(s.addrs, p.view.Endpoints[i].Addr)
	}
	return s, nil
}

// scrape gives the product the metrics of all engines.
func (s *scraper) scrape(now time.Duration, p *product, fleet []*engine.Engine) error {
	loads, err := p.store.Loads(clusterName, s.addrs, nil)
	if err != nil {
		return err
	}
	samples := make(map[string]engines.Sample, len(s.addrs))
	for i, addr := range s.addrs {
		sample := engines.Sample{At: now, ScrapedAt: now, FreshAt: now, Inflight: loads[i], Counted: true}
		s.page = s.page[:0]
		for rank, e := range fleet[i*p.per : (i+1)*p.per] {
			s.write(e, rank, now)
		}
		s.parser.Parse(s.page, &sample.Snapshot)
		samples[addr] = sample
	}
	p.cluster.Engines.Update(now, nil, samples)
	return nil
}

// write writes what the page of its server has of an engine.
func (s *scraper) write(e *engine.Engine, rank int, now time.Duration) {
	g, c := e.Gauges(now), e.Config()
	line := func(name, labels string, value float64) {
		s.page = append(append(append(s.page, "vllm:"...), name...), `{engine="`...)
		s.page = append(append(strconv.AppendInt(s.page, int64(rank), 10), '"'), labels...)
		s.page = append(strconv.AppendFloat(append(s.page, "} "...), value, 'g', -1, 64), '\n')
	}
	line("num_requests_running", "", float64(g.Running))
	line("num_requests_waiting", "", float64(g.Waiting))
	line("kv_cache_usage_perc", "", g.KVUsage)
	line("num_preemptions_total", "", float64(e.Preemptions()))
	line("cache_config_info", `,block_size="`+strconv.Itoa(c.BlockSize)+`",num_gpu_blocks="`+
		strconv.Itoa(c.NumBlocks)+`"`, 1)
}
