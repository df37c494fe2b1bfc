package response

import (
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/request"
)

// This file is what the end of a request says of what has served it.

const (
	// patientFor is how long an endpoint may keep a request waiting before it counts against it that the client leaves.
	patientFor = 5 * time.Second
	// stalledAfter is after which time without a part of the request its client has stalled. Times are those of ticks.
	stalledAfter = 2 * process.TickPeriod
)

// connectionFailures are what the gateway's details contain when it cannot connect to the endpoint.
var connectionFailures = [...]string{"connection_failure", "connection_timeout"}

// Verdict classifies the end of a request for the health of the endpoint. The gateway's details of the response are
// only read when it is not plainly good.
func (r *State) Verdict(now, sentAt time.Duration, b *request.Body, from host.GatewayStream) lb.Verdict {
	if !r.Reached { // answered by a filter, or for want of an endpoint
		return lb.Neutral
	}
	if r.Complete && r.Status > 0 && r.Status < 400 {
		return lb.Success
	}
	details := from.Details()
	switch {
	case details == "via_upstream" || details == "" && r.Status >= 400:
		return statusVerdict(r.Status)
	case strings.Contains(details, "overflow") || strings.Contains(details, "no_healthy_upstream"):
		return lb.Neutral // the gateway's own limits
	case containsAny(details, connectionFailures[:]...):
		return lb.Failure // whatever the request was
	case b.EndedAt == 0 && now-b.LastPart < stalledAfter && strings.Contains(details, "upstream_reset"):
		return lb.Overload // it had not all of the request yet, but that was on its way
	case b.EndedAt == 0:
		return lb.Neutral // the client has stalled, so that may be why
	case isTimeout(details):
		if r.Status == 0 || r.Status >= 500 { // as far as can be known: 500 and above may be the gateway's own
			return lb.TimedOut
		}
		return lb.Neutral // a long answer, or a slow client
	case strings.Contains(details, "upstream") && !strings.Contains(details, "downstream"):
		return lb.Failure
	case r.Status == 0 && now-sentAt >= patientFor:
		return lb.Overload // the client gave up waiting
	}
	return lb.Neutral
}

// isTimeout reports whether the gateway's details of a response mean that its time was over.
func isTimeout(details string) bool {
	for _, word := range [...]string{
		"response_timeout", "per_try", "stream_idle_timeout", "max_duration", "max_stream_duration",
	} {
		if strings.Contains(details, word) {
			return true
		}
	}
	return false
}

// statusVerdict judges by the status that the endpoint answered with.
func statusVerdict(status int) lb.Verdict {
	switch status {
	case 429, 503, 529:
		return lb.Overload
	case 408, 499, 501, 505:
		return lb.Neutral // the client was slow or left, or wants what no server of its kind has
	}
	switch {
	case status < 400:
		return lb.Success
	case status < 500:
		return lb.Rejected
	}
	return lb.Failure
}

// IsUnreachable reports whether the gateway's details of a response mean that it can send nothing to the cluster.
func IsUnreachable(details string) bool {
	return containsAny(details, "overflow", "no_healthy_upstream", "cluster_not_found")
}

// IsUnreached reports whether they mean that it could not even connect.
func IsUnreached(details string) bool {
	return IsUnreachable(details) || containsAny(details, connectionFailures[:]...)
}

func containsAny(details string, causes ...string) bool {
	return slices.ContainsFunc(causes, func(cause string) bool { return strings.Contains(details, cause) })
}

// Unserved reports whether no model can have worked on the request: the gateway has not reached its server, and
// so the request is unseen, or the server has refused it.
func (r *State) Unserved(from host.GatewayStream) (unserved, unseen bool) {
	switch {
	case !r.Reached:
		return true, true
	case r.Outcome == answer.Refused || r.Outcome == answer.Overloaded || r.Outcome == answer.Failed:
		return !r.Answer.HasOutput(), false
	case r.Status < 400:
		return false, false
	}
	if details := from.Details(); details != "" && details != "via_upstream" {
		unseen = IsUnreached(details)
		return unseen, unseen
	}
	return answer.IsUnserved(r.Status), false
}
