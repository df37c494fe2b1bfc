package response

import (
	"strings"

	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/plugin/measured"
)

// This file is how a request has ended for those who look at requests. What it means for the endpoint's health is in
// verdict.go.

// upstreamFailures are what the gateway's details contain when it is the server, or the way to it, that has failed.
var upstreamFailures = [...]string{
	"upstream", "connection_failure", "cluster_not_found", "maintenance_mode", "overload", "overflow",
}

// Ending returns how the request has ended. details returns the gateway's details of the response: they cost a call, so
// they are only asked for where the end is not plainly good.
func (r *State) Ending(refused bool, details func() string) measured.Outcome {
	good := r.Status >= 100 && r.Status < 400
	switch {
	case refused:
		return measured.Refused
	case r.Status == 101: // a side closes it, as all such end
		return measured.OK
	case r.Complete && good:
		return endingByContent(r.Outcome)
	}
	by := details()
	switch ofServer := by == "via_upstream"; {
	case !r.Complete && !ofServer, r.Status == 0:
		return endingOfPart(r.Outcome, by)
	case !r.Complete:
		return measured.ClientLeft
	case ofServer || by == "" && r.Reached:
		return endingByStatus(r.Status)
	}
	return endingByGateway(r.Status, by)
}

// endingByContent returns what the content of a complete answer under a good status says.
func endingByContent(o answer.Outcome) measured.Outcome {
	switch o {
	case answer.Complete:
		return measured.OK
	case answer.Refused:
		return measured.ClientError
	}
	return measured.ServerFailed
}

// endingOfPart returns how a request has ended that has no answer, or not all of one. Whatever the gateway does not say
// is by the client: so are ways to leave that gateways have no name for.
func endingOfPart(o answer.Outcome, details string) measured.Outcome {
	switch {
	case o == answer.Refused || o == answer.Overloaded || o == answer.Failed: // it has said so, and then closed
		return endingByContent(o)
	case isTimeout(details):
		return measured.TimedOut
	case strings.Contains(details, "downstream"):
		return measured.ClientLeft
	case containsAny(details, upstreamFailures[:]...):
		return measured.ServerFailed
	}
	return measured.ClientLeft
}

// endingByStatus returns what the status of a server says.
func endingByStatus(status int) measured.Outcome {
	switch {
	case status == 499:
		return measured.ClientLeft
	case status == 504:
		return measured.TimedOut
	case status == 429 || status >= 500 && status != 501 && status != 505:
		return measured.ServerFailed
	case status >= 400:
		return measured.ClientError
	}
	return measured.OK
}

// endingByGateway returns what it means that the gateway has answered in the server's place.
func endingByGateway(status int, details string) measured.Outcome {
	switch {
	case isTimeout(details) || status == 408 || status == 504:
		return measured.TimedOut
	case containsAny(details, upstreamFailures[:]...) || status >= 500:
		return measured.ServerFailed
	}
	return measured.Refused
}
