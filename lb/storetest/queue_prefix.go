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
	l.tick(1900 * time.Millisecond)
	l.granted([]*asked{again})
	l.tick(150 * time.Millisecond)
	l.granted([]*asked{again}, again)
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
