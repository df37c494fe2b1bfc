package placement

import (
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/mooncake"
)

// Replay is the workload of a trace, an open loop at its own pace.
func Replay(name string, trace []mooncake.Request) Workload {
	return Workload{Name: name, Servers: 8, Server: Engine(16, 32<<10), Scripts: func(seed uint64) []Script {
		out := make([]Script, len(trace))
		for i := range trace {
			t := &trace[i]
			add := []loadgen.Message{user(t.Text(seed))}
			out[i] = Script{
				Session: t.Session(i), Due: time.Duration(t.Timestamp-trace[0].Timestamp) * time.Millisecond,
				Turns: []Turn{{Parent: -1, add: add, Answer: max(1, t.Output/mooncake.Scale)}},
			}
		}
		return out
	}}
}
