package compare

import (
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

// Work returns how long a request keeps a server of speed 1 busy, if its batch is full: the prefill, which all share, and
// the request's share of each decode step.
func Work(server vllmsim.Config, prompt, output int) time.Duration {
	t := server.Tuning
	step := t.DecodeStepMS/float64(server.MaxNumSeqs) + t.DecodeSeqMS
	ms := t.PrefillOverheadMS + t.PrefillTokenMS*float64(prompt) + step*float64(output)
	return time.Duration(ms * float64(time.Millisecond))
}

// Load returns the share of the servers' capacity, 0..1, that the requests ask for while they arrive.
func Load(server vllmsim.Config, speeds []float64, reqs []loadgen.Request) float64 {
	var work time.Duration
	for i := range reqs {
		work += Work(server, reqs[i].Prompt, reqs[i].MaxTokens)
	}
	span := reqs[len(reqs)-1].Due
	if span <= 0 {
		return 0
	}
	return work.Seconds() / (span.Seconds() * sum(speeds))
}

// AtLoad returns the requests of a workload that lasts for the given time and asks for the given share of the servers'
// capacity. Rate and Count of w are overwritten.
func AtLoad(w loadgen.Workload, server vllmsim.Config, speeds []float64, load float64, span time.Duration) ([]loadgen.Request, error) {
	probe := w
	probe.Count, probe.Rate, probe.Seed = 20_000, 1, 0
	reqs, err := probe.Requests()
	if err != nil {
		return nil, err
	}
	var work time.Duration
	for i := range reqs {
		work += Work(server, reqs[i].Prompt, reqs[i].MaxTokens)
	}
	w.Rate = load * sum(speeds) * float64(len(reqs)) / work.Seconds()
	w.Count = max(1, int(w.Rate*span.Seconds()))
	return w.Requests()
}

func sum(xs []float64) float64 {
	var s float64
	for _, x := range xs {
		s += x
	}
	return s
}
