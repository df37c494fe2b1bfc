package core

import (
	"cmp"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// refuseFull refuses a request for which there is no room: the cluster is overloaded.
func (pl *placement) refuseFull(why lb.Reason, expected time.Duration) Action {
	if !pl.cfg.Shadow {
		pl.cluster.queue.refusedAt = pl.plugin.vm.now()
	}
	return pl.refuse(why, expected)
}

// refuse answers a request that is not placed: with 429, unless configured otherwise. expected is the time in which a
// request of its class is likely to be placed, 0 if the store has not told: then it is that of all who wait. Nothing is
// refused in shadow mode.
func (pl *placement) refuse(why lb.Reason, expected time.Duration) Action {
	if pl.cfg.Shadow {
		return pl.pass(lb.ReasonShadow)
	}
	pl.decided(why)
	pl.wait.countRefused(why)
	if pl.wait.class != nil {
		expected = pl.wait.expected(pl.plugin.vm.now(), expected)
	}
	headers := [][2]string{{"content-type", "application/json"}}
	after := pl.retryAfter(expected)
	if isBudget(why) {
		wait := pl.plugin.vm.waitFor(cmp.Or(expected, pl.cfg.Overload.RetryAfter, time.Second))
		headers = append(headers, pl.limitHeaders(why, wait)...)
		if after > 0 {
			after = wait
		}
	}
	if after > 0 {
		seconds := int((after + time.Second - 1) / time.Second)
		headers = append(headers, [2]string{"retry-after", strconv.Itoa(seconds)})
	}
	pl.Reply(pl.cfg.Overload.Status, headers, overloadBody(why))
	return Hold
}

const (
	// retryJitter is the part by which Retry-After varies at random, up or down, so that clients that are refused
	// together do not come back together.
	retryJitter = 0.1
	// maxRetryAfter bounds that time.
	maxRetryAfter = time.Hour
)

// retryAfter returns after which time the client may try again, 0 to not tell.
func (pl *placement) retryAfter(expected time.Duration) time.Duration {
	configured := pl.cfg.Overload.RetryAfter
	if configured == 0 || expected <= 0 {
		return configured
	}
	return max(time.Nanosecond, pl.plugin.vm.varied(expected))
}

// varied returns an expected wait, maxRetryAfter at most, longer or shorter by up to retryJitter of it at random.
func (e *env) varied(expected time.Duration) time.Duration {
	random := float64(e.gw.Random()>>11) / (1 << 53)
	return time.Duration(float64(min(expected, maxRetryAfter)) * (1 + retryJitter*(2*random-1)))
}

// overloadBody returns an error as the APIs of model servers have it.
func overloadBody(why lb.Reason) string {
	message, kind := "every model server is at its limit", `overloaded_error"`
	switch why {
	case lb.ReasonMaxQueueSizeExceeded:
		message = "too many requests wait for a model server"
	case lb.ReasonDeadlineUnreachable:
		message = "no model server is likely to answer in time"
	case lb.ReasonQueueTimeout:
		message = "no model server was free in time"
	case lb.ReasonRetryBudgetExceeded:
		message = "too many requests are retries"
	case lb.ReasonOverBudget:
		message, kind = "every model is at its rate limit", `rate_limit_error","param":null`
	case lb.ReasonTenantOverBudget:
		message, kind = "you are at your rate limit", `rate_limit_error","param":null`
	}
	return `{"error":{"message":"` + message + `, try again later","type":"` + kind + `,"code":"` +
		why.String() + `"}}`
}
