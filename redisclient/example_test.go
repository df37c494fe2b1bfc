package redisclient_test

import (
	"context"
	"fmt"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/redisclient"
)

// Two gateways reserve on the same endpoints: each counts what the other has in flight. The round trips of their
// pipelines are connections to a Redis server.
func ExampleStore() {
	server, err := redisserver.Start(context.Background(), redisserver.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Stop() }()
	gateway := func(owner uint64) *redisclient.Store {
		p := redisclient.NewPipeline(redisclient.Login{}, time.Second, tunnel(server.Addr()))
		o := redisclient.Options{Owner: owner, TTL: 5 * time.Second, Timeout: time.Second, KV: newMemory()}
		return redisclient.New(p, o)
	}
	plan := &lb.Plan{Scope: "llm", List: lb.NewList([]lb.Candidate{
		{Addr: "10.0.0.1:8000", Slope: 1, Weight: 1},
		{Addr: "10.0.0.2:8000", Slope: 1, Weight: 1},
	})}
	for owner, s := range []*redisclient.Store{gateway(1), gateway(2)} {
		s.Reserve(time.Hour, 1, plan, func(g lb.Grant, err error) {
			fmt.Printf("gateway %d: %s, %v\n", owner+1, plan.Candidates[g.Index].Addr, err)
		})
	}
	// Output:
	// gateway 1: 10.0.0.1:8000, <nil>
	// gateway 2: 10.0.0.2:8000, <nil>
}

// A reply is parsed as soon as it is complete.
func ExampleParse() {
	v, rest, err := redisclient.Parse([]byte("*2\r\n:1\r\n$2\r\nok\r\n+PONG\r\n"))
	fmt.Printf("%d items, %q, %v\n", len(v.Items), rest, err)
	_, _, err = redisclient.Parse([]byte("$5\r\nhal"))
	fmt.Println(err)
	// Output:
	// 2 items, "+PONG\r\n", <nil>
	// redisclient: incomplete reply
}
