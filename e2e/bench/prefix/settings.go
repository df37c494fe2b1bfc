package prefix

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/router"
)

type settings struct {
	bench.Settings
	workloads     string
	loads         []float64
	policies      string
	credits       []float64
	variants      []contender
	redis         bool
	trace         string
	traceFrom     int
	traceRequests int
	traceSpan     time.Duration
}

// everything is the value of -workload for all workloads.
const everything = "all"

func parse() (settings, error) {
	s := settings{credits: []float64{0.5, 1, 2, 4, 8, 16}}
	s.Flags(3)
	s.WorkersFlag(2)
	all := append(workloads(), replays(nil, 0, 0, 0)...)
	flag.StringVar(&s.workloads, "workload", usual,
		"these, divided by commas, or "+everything+": "+strings.Join(bench.Names(all, workload.title), ", "))
	flag.Func("load", "shares of the servers' capacity, divided by commas, to play each workload at (default: its own)",
		floats(&s.loads))
	bench.OnlyFlag(&s.policies, "policies", bench.Names(contenders(), contender.title))
	flag.Func("credits", "credits of exact, divided by commas, of which the best counts (default 0.5,1,2,4,8,16)",
		floats(&s.credits))
	flag.Func("variant", "NAME=JSON: also play this plugin configuration; may be repeated", func(text string) error {
		c, err := router.Variant(text)
		s.variants = append(s.variants, contender{Contender: c})
		return err
	})
	flag.BoolVar(&s.redis, "redis", false, "also play the policies of Warmgate with counts and index in Redis")
	flag.BoolFunc("all", "all workloads at loads 0.5, 0.8, 1 and 1.5, in Redis as well: "+
		"takes many hours", func(string) error {
		s.workloads, s.loads, s.redis = everything, []float64{0.5, 0.8, 1, 1.5}, true
		return nil
	})
	s.traceFlags()
	flag.Parse()
	return s, nil
}

// traceFlags declares the flags of the workloads that replay a trace.
func (s *settings) traceFlags() {
	flag.StringVar(&s.trace, "trace", os.Getenv("TRACE"),
		"file of the trace to replay, in Mooncake's form, .jsonl or .jsonl.gz (default $TRACE)")
	flag.IntVar(&s.traceFrom, "trace-from", 0, "number of the request of the trace to begin with; tracemid has its own")
	flag.IntVar(&s.traceRequests, "trace-requests", 2400, "requests of the trace to replay")
	flag.DurationVar(&s.traceSpan, "trace-span", 8*time.Second, "time to replay them in, without -load")
}

// floats returns what reads a list of positive numbers divided by commas.
func floats(list *[]float64) func(string) error {
	return func(text string) error {
		*list = nil
		for _, part := range strings.Split(text, ",") {
			x, err := strconv.ParseFloat(part, 64)
			if err != nil || !(x > 0) || math.IsInf(x, 0) {
				return fmt.Errorf("%q is not a positive number", part)
			}
			*list = append(*list, x)
		}
		return nil
	}
}
