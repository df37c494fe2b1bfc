package storetest

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// testQueueNowhere: a request without candidates has a place in the queue, and keeps nobody from an endpoint. With
// candidates it comes before those that came after it.
func testQueueNowhere(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	l.refuse(o[0], limited(nil, 1, lb.Wait{}), lb.ErrFull)
	nowhere, p := limited(nil, 1, wait(high)), limited(addrs, 1, wait(high))
	first, since := l.queue(o[0], nowhere), l.now
	left, over := l.queue(o[1], nowhere), *nowhere
	over.Wait.Max = time.Second
	short := l.queue(o[1], &over)
	holder := l.take(o[1], p)
	others := []*asked{l.queue(o[1], p), l.queue(o[0], p)}
	l.release(left)
	l.release(holder)
	l.granted([]*asked{first, short, others[0], others[1]}, others[0])
	l.tick(1100 * time.Millisecond)
	l.ended(short, lb.ErrWaitOver)
	again := *p
	again.Wait.Since, again.Wait.Instead = since, first.id
	planned := l.queue(o[0], &again)
	l.release(first)
	l.release(others[0])
	l.granted([]*asked{planned, others[1]}, planned)
	l.release(planned)
	l.granted(others[1:], others[1])
	l.want(addrs, 1)
}

// testQueueNowhereLong: while there is nothing for those that wait, the time that passes shows nothing of the servers.
// So it makes nobody hopeless: neither who comes then nor who waits for a server that is there again.
func testQueueNowhereLong(t *testing.T, l *line) {
	o, addrs := l.join(1), Addrs(1)
	nowhere, p := limited(nil, 1, wait(high)), limited(addrs, 1, wait(high))
	for range 8 {
		l.queue(o[0], nowhere)
		for range 50 {
			l.tick(100 * time.Millisecond)
			l.poll()
		}
	}
	for range 60 {
		l.queue(o[0], nowhere)
	}
	if n := o[0].Queue(l.now, "llm").Waiting; n != 68 {
		t.Fatalf("%d wait", n)
	}
	l.take(o[0], p)
	for range 60 {
		l.queue(o[0], p)
	}
}
