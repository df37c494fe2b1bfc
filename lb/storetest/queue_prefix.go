package storetest

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// prompted returns a plan whose prompt is worth going to where it is cached.
func prompted(addrs []string, skip int, seed uint64) *lb.Plan {
	p := limited(addrs, 1, wait(high))
	p.Wait.Skip = skip
	return WithPrompt(p, 10, Blocks(seed))
}

// The seed of the prompt that the first endpoint has; those of other prompts are higher.
const warmSeed = 1

// warmUp lets the first endpoint have the prompt, and takes it.
func (l *line) warmUp(s lb.Store, addrs []string) *asked {
	l.release(l.take(s, prompted(addrs[:1], 0, warmSeed)))
	return l.take(s, prompted(addrs[:1], 0, 99))
}

// testQueuePass: at the endpoint that has its prompt, a request goes before those that came earlier.
func testQueuePass(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	holder := l.warmUp(o[0], addrs)
	waiting := []*asked{
		l.queue(o[0], prompted(addrs, 8, 2)), l.queue(o[1], prompted(addrs, 8, 3)),
		l.queue(o[0], prompted(addrs, 8, 4)), l.queue(o[1], prompted(addrs, 8, warmSeed)),
	}
	l.expectOrder(holder, waiting, 3, 0, 1, 2)
	if g := waiting[3].Grant; g.Cached != 4 || g.Load != (lb.Load{Requests: 1, Tokens: answerTokens}) {
		t.Fatalf("the grant of the request with a warm prefix is %+v", g)
	}
}

func testQueueSkip(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	holder := l.warmUp(o[0], addrs)
	waiting := []*asked{
		l.queue(o[0], prompted(addrs, 2, 2)), l.queue(o[1], prompted(addrs, 2, 3)),
		l.queue(o[0], prompted(addrs, 2, 4)), l.queue(o[1], prompted(addrs, 2, 5)),
		l.queue(o[1], prompted(addrs, 2, warmSeed)), l.queue(o[1], prompted(addrs, 0, warmSeed)),
	}
	l.expectOrder(holder, waiting, 0, 1, 4, 2, 3, 5)
}

// testQueuePassed: requests with a warm prefix keep coming, and a cold one is served all the same.
func testQueuePassed(t *testing.T, l *line) {
	const skip = 2
	o, addrs := l.join(2), Addrs(1)
	holder := l.warmUp(o[0], addrs)
	cold := l.queue(o[0], prompted(addrs, skip, 2))
	passed := 0
	for cold.waits() {
		warm := l.queue(o[1], prompted(addrs, skip, warmSeed))
		l.release(holder)
		l.poll()
		if holder = warm; !warm.waits() {
			if passed++; passed > 3*skip {
				t.Fatalf("passed %d times", passed)
			}
		}
	}
	if passed < skip {
		t.Fatalf("passed %d times, %d are allowed at once", passed, skip)
	}
}

// testQueuePassedProgram: a program whose prompt is cached passes another one of its tenant as long as it is ahead by
// no more than a request, and one of another tenant never.
func testQueuePassedProgram(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	for _, c := range []struct {
		tenant uint64
		passes int
	}{{1, 2}, {2, 0}} {
		holder := l.warmUp(o[0], addrs)
		plan := func(tenant, program, seed uint64) *lb.Plan {
			p := prompted(addrs, 8, seed)
			p.Wait.Tenant = lb.TurnOf(tenant, program)
			return p
		}
		cold := l.queue(o[0], plan(c.tenant, 1, 2))
		passed := -1
		for ; cold.waits(); passed++ {
			warm := l.queue(o[1], plan(1, 2, warmSeed))
			l.release(holder)
			l.poll()
			if holder = warm; warm.waits() {
				holder = cold
				l.release(warm)
			}
		}
		if l.release(holder); passed != c.passes {
			t.Errorf("tenant %d: passed %d times, want %d", c.tenant, passed, c.passes)
		}
	}
}

// testQueuePatienceSaved: a request waits for the full endpoint that has its prompt, while another is open, for four
// times as long as it takes to compute that; and not at all for a prompt that is computed at once.
func testQueuePatienceSaved(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(2)
	p := prompted(addrs, 8, warmSeed)
	p.Wait.Patience, p.Prefix.Takes = 2*time.Second, 75*time.Millisecond
	hasty := *p
	hasty.Prefix.Takes = time.Millisecond
	l.warmUp(o[0], addrs)
	r := l.queue(o[1], p)
	l.tick(250 * time.Millisecond)
	l.granted([]*asked{r})
	l.tick(100 * time.Millisecond)
	l.granted([]*asked{r}, r)
	if r.addr != addrs[1] {
		t.Fatalf("granted %s", r.addr)
	}
	l.release(r)
	if hurried := l.take(o[0], &hasty); hurried.addr != addrs[1] {
		t.Fatalf("granted %s", hurried.addr)
	}
}

// testQueuePatienceFull: a request that comes while all are full has all of its patience, however little its prompt
// saves: others take what is free meanwhile.
func testQueuePatienceFull(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(2)
	p := prompted(addrs, 8, warmSeed)
	p.Wait.Patience, p.Prefix.Takes = 2*time.Second, time.Millisecond
	l.warmUp(o[0], addrs)
	cold := l.take(o[0], prompted(addrs, 8, 2))
	r := l.queue(o[1], p)
	l.release(cold)
	l.isPatientFor2s(r)
}

// isPatientFor2s lets two seconds pass, after which the request is granted an endpoint, and not before.
func (l *line) isPatientFor2s(r *asked) {
	l.tick(1900 * time.Millisecond)
	l.granted([]*asked{r})
	l.tick(150 * time.Millisecond)
	l.granted([]*asked{r}, r)
}

// testQueuePatience: a request waits for the full endpoint that has its prompt while another is open, and takes the
// other when its patience ends. Meanwhile others may have that.
func testQueuePatience(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(2)
	p := prompted(addrs, 8, warmSeed)
	p.Wait.Patience = 2 * time.Second
	holder := l.warmUp(o[0], addrs)
	r := l.queue(o[1], p)
	l.tick(time.Second)
	l.granted([]*asked{r})
	cold := l.take(o[0], prompted(addrs, 8, 2))
	if cold.addr != addrs[1] {
		t.Fatalf("granted %s", cold.addr)
	}
	l.release(cold)
	l.granted([]*asked{r})
	l.release(holder)
	l.granted([]*asked{r}, r)
	if r.addr != addrs[0] || r.Cached != 4 {
		t.Fatalf("granted %s with %d blocks cached", r.addr, r.Cached)
	}
	again := l.queue(o[1], p)
	l.isPatientFor2s(again)
	if again.addr != addrs[1] {
		t.Fatalf("granted %s", again.addr)
	}
	l.release(again)
	hasty := *p
	hasty.Wait.Patience = 0
	if hurried := l.take(o[0], &hasty); hurried.addr != addrs[1] {
		t.Fatalf("granted %s", hurried.addr)
	}
}
