package core

import (
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// shed refuses a request because every endpoint is at its cap: with 429, unless configured otherwise.
func (s *Stream) shed() Action {
	if s.cfg.Shadow {
		return s.pass(lb.ReasonShadow)
	}
	s.decided(lb.ReasonAtCapacity)
	headers := [][2]string{{"content-type", "application/json"}}
	if after := s.cfg.Overload.RetryAfter; after > 0 {
		seconds := int((after + time.Second - 1) / time.Second)
		headers = append(headers, [2]string{"retry-after", strconv.Itoa(seconds)})
	}
	s.Reply(s.cfg.Overload.Status, headers, overloadBody)
	return Hold
}

// overloadBody is an error as the APIs of model servers have it.
const overloadBody = `{"error":{"message":"every model server is at its limit, try again later",` +
	`"type":"overloaded_error","code":"at_capacity"}}`
