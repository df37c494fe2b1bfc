package core

import (
	"encoding/json"
	"testing"

	"github.com/warmgate/warmgate/lb"
)

// A budget's refusal has the shape of OpenAI's errors.
func TestBodiesOfBudgetRefusals(t *testing.T) {
	for _, why := range []lb.Reason{lb.ReasonOverBudget, lb.ReasonTenantOverBudget} {
		var body map[string]map[string]any
		if err := json.Unmarshal([]byte(overloadBody(why)), &body); err != nil {
			t.Fatal(err)
		}
		e := body["error"]
		if _, has := e["param"]; !has || len(e) != 4 || e["type"] != "rate_limit_error" || e["code"] != why.String() ||
			e["message"] == "" {
			t.Errorf("%v", body)
		}
	}
}

// Every refusal is an error as the APIs of model servers have it.
func TestBodiesOfRefusals(t *testing.T) {
	messages := map[string]bool{}
	for _, why := range []lb.Reason{
		lb.ReasonAtCapacity, lb.ReasonMaxQueueSizeExceeded, lb.ReasonDeadlineUnreachable, lb.ReasonQueueTimeout,
		lb.ReasonRetryBudgetExceeded,
	} {
		var body struct {
			Error struct{ Message, Type, Code string }
		}
		if err := json.Unmarshal([]byte(overloadBody(why)), &body); err != nil {
			t.Fatal(err)
		}
		e := body.Error
		if e.Type != "overloaded_error" || e.Code != why.String() || messages[e.Message] || e.Message == "" {
			t.Errorf("%s: %+v", why, e)
		}
		messages[e.Message] = true
	}
}
