package redisclient

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/warmgate/warmgate/lb/queue"
)

// The numbers that scripts have in common with package queue are the same there.
func TestLimitsOfTheQueue(t *testing.T) {
	for pattern, want := range map[string]int{
		`(?:passed = math\.max\(inflight|4 \* math\.max\(q\.places), (\d+)\)`: queue.MinPace,
		`math\.min\(q\.skip, (\d+)\)`:                                         queue.MaxSkip,
		`MOST, beyond, limit = (\d+)`:                                         queue.MaxIdle,
		`q\.patient >= (\d+)`:                                                 queue.MaxPatient,
	} {
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(scriptText("wait"), -1)
		if len(found) == 0 {
			t.Errorf("the scripts have no %s", pattern)
		}
		for _, f := range found {
			if n, err := strconv.Atoi(f[1]); err != nil || n != want {
				t.Errorf("%s, in package queue it is %d", f[0], want)
			}
		}
	}
}
