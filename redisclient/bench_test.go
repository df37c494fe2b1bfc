package redisclient_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// instantTransport is a transport that answers at once.
type instantTransport struct {
	reply string
	bytes int
}

func (i *instantTransport) Do(now time.Duration, cmd []byte, done redisclient.Done) {
	i.bytes += len(cmd)
	done(now, []byte(i.reply), nil)
}

// BenchmarkReserveRelease measures what one request costs in the gateway, without connection and server.
func BenchmarkReserveRelease(b *testing.B) {
	plan := storetest.Even(storetest.Addrs(64))
	plan.List = lb.NewList(plan.Candidates)
	b.Run("without a prompt", func(b *testing.B) { benchmark(b, plan, grantReply) })
	for _, n := range []int{5, 64} {
		b.Run(fmt.Sprintf("%d blocks", n), func(b *testing.B) {
			benchmark(b, storetest.WithPrompt(plan, 1, numberedBlocks(n, 1)), promptReply(1, 1, 0, 3, 0))
		})
	}
}

func benchmark(b *testing.B, plan *lb.Plan, reply string) {
	tr := &instantTransport{reply: reply}
	s := newManualStore(tr, newMemory())
	b.ReportAllocs()
	for i := range b.N {
		id := lb.LeaseID(i)
		s.Reserve(0, id, plan, func(lb.Grant, error) {})
		s.Release(0, id)
		s.Expire(0)
	}
	b.ReportMetric(float64(tr.bytes)/float64(b.N), "bytes-sent/op")
}

func BenchmarkParseGrant(b *testing.B) {
	reply := []byte(grantReply)
	b.ReportAllocs()
	for range b.N {
		if _, _, err := redisclient.Parse(reply); err != nil {
			b.Fatal(err)
		}
	}
}
