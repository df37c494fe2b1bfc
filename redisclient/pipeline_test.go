package redisclient_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/redisclient"
)

// manualRoundTrips keeps the round trips of a pipeline until the test answers them.
type manualRoundTrips struct {
	bodies []string
	nodes  []string
	dones  []redisclient.Done
}

func (c *manualRoundTrips) call(_ time.Duration, node string, body []byte, done redisclient.Done) {
	c.bodies = append(c.bodies, string(body))
	c.nodes = append(c.nodes, node)
	c.dones = append(c.dones, done)
}

// answers collects what commands were answered with.
type answers []string

func (a *answers) done(name string) redisclient.Done {
	return func(_ time.Duration, reply []byte, err error) {
		text := fmt.Sprintf("%s=%q", name, reply)
		if err != nil {
			text = name + "=" + redisclient.Cause(err)
		}
		*a = append(*a, text)
	}
}

func (a *answers) want(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(*a, " "); got != want {
		t.Errorf("answers\n%s, want\n%s", got, want)
	}
	*a = nil
}

const (
	ping = "*1\r\n$4\r\nPING\r\n"
	pong = "+PONG\r\n"
	get  = "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
)

func TestPipelineBatches(t *testing.T) {
	var c manualRoundTrips
	var a answers
	p := redisclient.NewPipeline(redisclient.Login{}, 20*time.Millisecond, c.call)
	p.Do(0, []byte(get), a.done("one"))
	p.Do(1, []byte(get), a.done("two"))
	p.Do(2, []byte(get), a.done("three"))
	if len(c.bodies) != 1 || c.bodies[0] != get+ping {
		t.Fatalf("during a round trip: %q", c.bodies)
	}
	c.dones[0](3, []byte("$1\r\na\r\n"+pong), nil)
	a.want(t, `one="$1\r\na\r\n"`)
	if len(c.bodies) != 2 || c.bodies[1] != get+get+ping {
		t.Fatalf("the second round trip: %q", c.bodies)
	}
	c.dones[1](4, []byte(":1\r\n-ERR no\r\n"+pong), nil)
	a.want(t, `two=":1\r\n" three="-ERR no\r\n"`)
	p.Do(5, []byte(get), a.done("four"))
	if len(c.bodies) != 3 {
		t.Fatal("an idle pipeline waited")
	}
}

// batchReplies are the cases of TestPipelineReplies.
var batchReplies = []struct {
	name, reply string
	err         error
	want        string
}{
	{"whole", ":1\r\n:2\r\n" + pong, nil, `a=":1\r\n" b=":2\r\n"`},
	{"cut between", ":1\r\n", nil, `a=":1\r\n" b=unreachable`},
	{"cut within", ":1\r\n$9\r\nabc", nil, `a=":1\r\n" b=unreachable`},
	{"nothing", "", nil, `a=unreachable b=unreachable`},
	{"garbage", "<html>", nil, `a=garbage b=garbage`},
	{"garbage behind", ":1\r\n<html>", nil, `a=":1\r\n" b=garbage`},
	{"refused", "", redisclient.ErrUnreachable, `a=unreachable b=unreachable`},
}

func TestPipelineReplies(t *testing.T) {
	for _, c := range batchReplies {
		t.Run(c.name, func(t *testing.T) {
			var fake manualRoundTrips
			var first, a answers
			p := redisclient.NewPipeline(redisclient.Login{}, time.Second, fake.call)
			p.Do(0, []byte(get), first.done("first"))
			p.Do(0, []byte(get), a.done("a"))
			p.Do(0, []byte(get), a.done("b"))
			fake.dones[0](0, []byte(":0\r\n"+pong), nil)
			fake.dones[1](0, []byte(c.reply), c.err)
			a.want(t, c.want)
		})
	}
}

func TestPipelineDeadline(t *testing.T) {
	var c manualRoundTrips
	var a answers
	p := redisclient.NewPipeline(redisclient.Login{}, 20, c.call)
	if next := p.Expire(0); next != 0 {
		t.Fatalf("an idle pipeline has a deadline at %d", next)
	}
	p.Do(10, []byte(get), a.done("one"))
	p.Do(25, []byte(get), a.done("two"))
	if next := p.Expire(29); next != 30 {
		t.Fatalf("the deadline is at %d", next)
	}
	p.Expire(30)
	a.want(t, "one=timeout two=timeout")
	p.Do(31, []byte(get), a.done("three"))
	c.dones[0](32, []byte(":1\r\n"+pong), nil) // of the round trip that has failed
	c.dones[1](33, []byte(":3\r\n"+pong), nil)
	a.want(t, `three=":3\r\n"`)
}

// The deadline of a round trip is moved for a worker that was held up, but only once; that of the next one again.
func TestPipelinePostpone(t *testing.T) {
	var c manualRoundTrips
	var a answers
	p := redisclient.NewPipeline(redisclient.Login{}, 20, c.call)
	for call := range time.Duration(2) {
		now := 100 * call
		p.Do(now, []byte(get), a.done("x"))
		p.Postpone(7)
		p.Postpone(7)
		if next := p.Expire(now + 26); next != now+27 {
			t.Fatalf("round trip %d: the deadline is at %d, want %d", call, next, now+27)
		}
		p.Expire(now + 27)
	}
	a.want(t, "x=timeout x=timeout")
}

// A reply may lead to the next command, and every node has its own round trips.
func TestPipelineNodes(t *testing.T) {
	var c manualRoundTrips
	var a answers
	p := redisclient.NewPipeline(redisclient.Login{}, time.Second, c.call)
	p.Do(0, []byte(get), func(now time.Duration, reply []byte, err error) {
		p.DoAt(now, "10.0.0.9:6379", true, []byte(get), a.done("moved"))
	})
	c.dones[0](1, []byte("-ASK 5 10.0.0.9:6379\r\n"+pong), nil)
	if c.nodes[1] != "10.0.0.9:6379" || c.bodies[1] != "*1\r\n$6\r\nASKING\r\n"+get+ping {
		t.Fatalf("followed to %q with %q", c.nodes[1], c.bodies[1])
	}
	p.Do(1, []byte(get), a.done("home"))
	c.dones[1](2, []byte("+OK\r\n:7\r\n"+pong), nil)
	c.dones[2](2, []byte(":8\r\n"+pong), nil)
	a.want(t, `moved=":7\r\n" home=":8\r\n"`)
}

// A pipeline works over real connections that are closed for writing once the commands are sent, as a gateway's tunnel
// does.
func TestPipelineOnRedis(t *testing.T) {
	s := redisserver.StartT(t, redisserver.Options{})
	p := redisclient.NewPipeline(redisclient.Login{Database: 2}, time.Second, tunnel(s.Addr()))
	for i := range 300 {
		done := false
		p.Do(0, redisclient.AppendCommand(nil, "INCR", "n"), func(_ time.Duration, reply []byte, err error) {
			done = true
			if want := fmt.Sprintf(":%d\r\n", i+1); err != nil || string(reply) != want {
				t.Fatalf("%q, %v, want %q", reply, err, want)
			}
		})
		if !done {
			t.Fatal("no answer")
		}
	}
	if n := dial(t, s).value("EXISTS", "n").Int; n != 0 {
		t.Error("the commands ran in database 0")
	}
	if err := errors.Join(s.Kill()); err != nil {
		t.Fatal(err)
	}
}

// tunnel returns round trips to a server over connections that are closed for writing once the commands are sent.
func tunnel(server string) redisclient.RoundTrip {
	return func(now time.Duration, _ string, body []byte, done redisclient.Done) {
		conn, err := net.Dial("tcp", server)
		if err != nil {
			done(now, nil, redisclient.ErrUnreachable)
			return
		}
		defer func() { _ = conn.Close() }()
		_, writeErr := conn.Write(body)
		closeErr := conn.(*net.TCPConn).CloseWrite()
		reply, err := io.ReadAll(conn)
		done(now, reply, errors.Join(writeErr, closeErr, err))
	}
}
