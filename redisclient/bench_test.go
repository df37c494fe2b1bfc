package redisclient_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// instant is a transport that grants at once.
type instant struct{ bytes int }

func (i *instant) Do(now time.Duration, cmd []byte, done redisclient.Done) {
	i.bytes += len(cmd)
	done(now, []byte(grantReply), nil)
}

// BenchmarkReserveRelease is what one request costs this side of the connection, without the answer's way.
func BenchmarkReserveRelease(b *testing.B) {
	tr := &instant{}
	s := newManualStore(tr, newMemory())
	plan := storetest.Even(storetest.Addrs(64))
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
