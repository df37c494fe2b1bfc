package redisclient_test

import (
	"testing"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/redisclient"
)

// BenchmarkLoad measures for how long the server is occupied when it loads a script: the least of all rounds, by its
// SLOWLOG.
func BenchmarkLoad(b *testing.B) {
	server := redisserver.StartT(b, redisserver.Options{Config: []string{"slowlog-log-slower-than 0"}})
	do := func(args ...any) []int {
		v, err := server.Do(args...)
		if err != nil {
			b.Fatal(err)
		}
		var times []int
		for _, entry := range v.Array() {
			times = append(times, entry.Array()[2].Integer())
		}
		return times
	}
	for _, name := range redisclient.ScriptNames() {
		b.Run(name, func(b *testing.B) {
			least := 0
			for i := range b.N {
				do("SCRIPT", "FLUSH")
				do("SCRIPT", "LOAD", redisclient.ScriptText(name))
				// The latest entry is that of the command in front of this one.
				if took := do("SLOWLOG", "GET", "1")[0]; i == 0 || took < least {
					least = took
				}
			}
			b.ReportMetric(float64(least), "server-µs")
		})
	}
}
