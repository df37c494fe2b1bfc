package enginesim_test

import (
	"fmt"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// Two requests with the same prompt, one after the other: the second one finds all but the last token in the cache.
func Example() {
	e := enginesim.New(enginesim.Config{}, enginesim.DefaultTimes())
	now := time.Duration(0)
	for range 2 {
		err := e.Add(&enginesim.Request{Prompt: make([]byte, 1601*enginesim.BytesPerToken), Tokens: 2}, now)
		if err != nil {
			panic(err)
		}
		for took := e.Begin(now); took > 0; took = e.Begin(now) {
			now += took
			for _, r := range e.Finish(now) {
				fmt.Println(now, r.Generated(), r.Cached(), r.Done())
			}
		}
	}
	// Output:
	// 85.05ms 1 0 false
	// 95.05ms 2 0 true
	// 100.1ms 1 1600 false
	// 110.1ms 2 1600 true
}
