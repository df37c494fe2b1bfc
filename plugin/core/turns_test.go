package core

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// ofSession is a request of a session, whose body has so many answers of the model.
func ofSession(key string, answers int) streamtest.Request {
	body := `{"model":"m","messages":[{"role":"user","content":"go"}`
	for range answers {
		body += `,{"role":"assistant","content":"done"},{"content":"go on","role":"user"}`
	}
	return streamtest.Request{Frames: []string{body + `],"session_id":` + strconv.Quote(key) + `}`}}
}

// order ends what is served, and returns the numbers of those that wait in the order in which they are served.
func (d *fakeDriver) order(served *fakeStream, waiting ...*fakeStream) (numbers []int) {
	d.t.Helper()
	done := map[int]bool{}
	for range waiting {
		served.Finish()
		d.advance(2 * wakeTime)
		for i, c := range waiting {
			if c.Upstream() >= 0 && !done[i] {
				numbers, served = append(numbers, i), c
				done[i] = true
			}
		}
	}
	if len(numbers) != len(waiting) {
		d.t.Fatalf("served %v of %d", numbers, len(waiting))
	}
	return numbers
}

// A session takes turns with others of its tenant, by its key in the body or in a header, and has none without one.
func TestSessionsTakeTurns(t *testing.T) {
	for _, c := range []struct {
		config string
		want   string
	}{
		{`"max_length":99`, "[0 1 2 3 4]"},
		{`"fair_by":"session"`, "[0 3 4 1 2]"},
	} {
		d, busy := startQueue(t, 2, 1, queueConfig(c.config, `"unit":"tokens"`))
		var waiting []*fakeStream
		for _, key := range []string{"a", "a", "a", "b", ""} {
			waiting = append(waiting, d.client(0, ofSession(key, 0)))
		}
		if got := d.order(busy[0], waiting...); fmt.Sprint(got) != c.want {
			t.Errorf("%s: served in the order %v, want %s", c.config, got, c.want)
		}
	}
}

// Later turns of conversations go before first ones, or the reverse, unless the header names a class.
func TestClassByTurn(t *testing.T) {
	const classes = `"order":"strict","classes":{"high":2,"low":1},"class_header":"x-class",`
	for _, c := range []struct{ config, want string }{
		{`"first_turn_class":"low","later_turn_class":"high"`, "[1 2 0 3]"},
		{`"first_turn_class":"high","later_turn_class":"low"`, "[0 1 2 3]"},
		{`"default_class":"high"`, "[0 1 2 3]"},
	} {
		d, busy := startQueue(t, 1, 1, queueConfig(classes+c.config))
		named := ofSession("", 0)
		named.Headers = [][2]string{{"x-class", "low"}}
		waiting := []*fakeStream{
			d.client(0, ofSession("", 0)), d.client(0, ofSession("", 3)), d.client(0, ofSession("", 1)),
			d.client(0, named),
		}
		if got := d.order(busy[0], waiting...); fmt.Sprint(got) != c.want {
			t.Errorf("%s: served in the order %v, want %s", c.config, got, c.want)
		}
	}
}
