package core

import (
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/apicall"
	"github.com/warmgate/warmgate/plugin/placement"
)

// This file is how a request that is not placed is answered.

// refusalHeaders returns the headers of the answer to a request that is refused.
func refusalHeaders(r *placement.Refusal) [][2]string {
	headers := [][2]string{{"content-type", "application/json"}}
	if r.OfBudget {
		headers = append(headers, limitHeaders(r)...)
	}
	if r.RetryAfter > 0 {
		seconds := int((r.RetryAfter + time.Second - 1) / time.Second)
		headers = append(headers, [2]string{"retry-after", strconv.Itoa(seconds)})
	}
	return headers
}

// limitHeaders returns what a client is told of a budget, as OpenAI's API tells it, and the exact time to wait, as
// OpenAI's clients read it.
func limitHeaders(r *placement.Refusal) [][2]string {
	headers := [][2]string{{"retry-after-ms", strconv.FormatInt(r.Wait.Milliseconds(), 10)}}
	add := func(of string, limit, left float64) {
		if limit == 0 {
			return
		}
		headers = append(headers, [2]string{"x-ratelimit-limit-" + of, strconv.FormatInt(int64(limit), 10)})
		if left >= 0 { // else the store could not say
			headers = append(headers, [2]string{"x-ratelimit-remaining-" + of, strconv.FormatInt(int64(left), 10)})
		}
		headers = append(headers, [2]string{"x-ratelimit-reset-" + of, r.Wait.String()})
	}
	add("tokens", r.Limits.Tokens, r.Left.Tokens)
	add("requests", r.Limits.Requests, r.Left.Requests)
	return headers
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
	case lb.ReasonNoneInSubset:
		message, kind = "no model server of those for the request is available", `service_unavailable_error"`
	case lb.ReasonOverBudget:
		message, kind = "every model is at its rate limit", `rate_limit_error","param":null`
	case lb.ReasonTenantOverBudget:
		message, kind = "you are at your rate limit", `rate_limit_error","param":null`
	}
	return `{"error":{"message":"` + message + `, try again later","type":"` + kind + `,"code":"` +
		why.String() + `"}}`
}

// notCachedBody is the error for a request that prefers to be answered only where its prompt is cached.
const notCachedBody = `{"error":{"message":"the prompt is not cached where there is room",` +
	`"type":"invalid_request_error","param":null,"code":"not_cached"}}`

// noModelBody returns the error for a model that no endpoint has, as OpenAI's API has it, with the models that there
// are.
func noModelBody(names []string) string {
	return `{"error":{"message":"no model server has this model, those that there are: see models",` +
		`"type":"invalid_request_error","param":"model","code":"model_not_found","models":` +
		apicall.List(len(names), func(i int) string { return apicall.Quote(names[i]) }) + `}}`
}
