package placement

import (
	"cmp"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// AnswerRefused answers a request that is not placed: with 429, unless configured otherwise. expected is the time in
// which a request of its class is likely to be placed, 0 if the store has not told: then it is that of all who wait.
func (pl *Placement) AnswerRefused(why lb.Reason, expected time.Duration) {
	pl.Wait.countRefused(why)
	if pl.Wait.Class != nil {
		expected = pl.Wait.expected(pl.Shared.Clock(), expected)
	}
	headers := [][2]string{{"content-type", "application/json"}}
	after := pl.retryAfter(expected)
	if isBudget(why) {
		wait := pl.Shared.WaitFor(cmp.Or(expected, pl.Config.Overload.RetryAfter, time.Second))
		headers = append(headers, pl.charge.limitHeaders(why, wait)...)
		if after > 0 {
			after = wait
		}
	}
	if after > 0 {
		seconds := int((after + time.Second - 1) / time.Second)
		headers = append(headers, [2]string{"retry-after", strconv.Itoa(seconds)})
	}
	pl.Gateway.Reply(pl.Config.Overload.Status, headers, overloadBody(why))
}

// retryAfter returns after which time the client may try again, 0 to not tell.
func (b *basis) retryAfter(expected time.Duration) time.Duration {
	configured := b.Config.Overload.RetryAfter
	if configured == 0 || expected <= 0 {
		return configured
	}
	return max(time.Nanosecond, b.Shared.Varied(expected))
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
