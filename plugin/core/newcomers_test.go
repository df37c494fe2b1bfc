package core

import (
	"strconv"
	"testing"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

func ofTenant(name string) streamtest.Request {
	return streamtest.Request{Headers: [][2]string{{"x-tenant", name}}}
}

// A thousand tenants with made-up names delay one that is known by one turn, a new one until its first answer.
func TestMadeUpTenants(t *testing.T) {
	d, busy := startQueue(t, 2, 1, queueConfig(`"max_length":2000,"tenant_header":"x-tenant","aging":0`))
	served := busy[0]
	next := func(among ...*fakeStream) *fakeStream { // the next one that is served
		served.Finish()
		d.advance(2 * wakeTime)
		for _, c := range among {
			if c.Upstream() >= 0 && !c.Ended {
				served = c
				return c
			}
		}
		t.Fatal("nobody is served")
		return nil
	}
	known, first := d.client(0, ofTenant("known")), d.client(0, ofTenant("first"))
	next(known)
	next(first)
	var made []*fakeStream
	for i := range 1000 {
		made = append(made, d.client(i%2, ofTenant("made up "+strconv.Itoa(i))))
	}
	honest := d.client(0, ofTenant("new"))
	turns := func(of *fakeStream) (n int) { // until a request is served that has just come
		for next(append(made, of, honest)...) != of {
			n++
		}
		return n
	}
	for range 20 {
		if n := turns(d.client(0, ofTenant("known"))); n > 1 {
			t.Fatalf("%d others were served before a tenant that is known", n)
		}
	}
	if n := turns(honest); n < 900 || n > 1000 {
		t.Errorf("%d others were served before a new tenant, who came after 1000", n)
	}
	for i := range 1000 {
		made = append(made, d.client(i%2, ofTenant("made up again "+strconv.Itoa(i))))
	}
	next(made...) // its answer ends
	if n := turns(d.client(0, ofTenant("new"))); n > 1 {
		t.Errorf("%d others were served before a tenant that is known by now", n)
	}
}
