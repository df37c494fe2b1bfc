package vllmsim_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
)

// BenchmarkInstant measures the cheap upstream of proxy benchmarks over keep-alive connections;
// its client is as small as can be, so nearly all of the CPU is the server's and the kernel's.
func BenchmarkInstant(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("body=%dKiB", size>>10), func(b *testing.B) {
			benchmarkServer(b, vllmsim.Config{Instant: true}, size)
		})
	}
}

// BenchmarkNoLatency is the same through the engine, whose steps take no time.
func BenchmarkNoLatency(b *testing.B) {
	benchmarkServer(b, vllmsim.Config{Tuning: vllmsim.NoLatency()}, 1<<10)
}

func benchmarkServer(b *testing.B, cfg vllmsim.Config, size int) {
	s := vllmsimtest.StartT(b, cfg)
	body := fmt.Sprintf(`{"model":"m","max_tokens":8,"messages":[{"role":"user","content":"%s"}]}`, strings.Repeat("x ", size/2))
	request := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: sim\r\nContent-Type: "+
		"application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		r := bufio.NewReader(conn)
		for pb.Next() {
			if err := roundTrip(conn, r, request); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// roundTrip sends one request and reads its reply, which has a Content-Length.
func roundTrip(conn net.Conn, r *bufio.Reader, request string) error {
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	length := 0
	for first := true; ; first = false {
		line, err := r.ReadString('\n')
		if err != nil {
			return err
		}
		if first && !strings.Contains(line, " 200 ") {
			return fmt.Errorf("status line %q", line)
		}
		if line == "\r\n" {
			break
		}
		// An unrelated header leaves length as it is.
		_, _ = fmt.Sscanf(line, "Content-Length: %d", &length)
	}
	_, err := r.Discard(length)
	return err
}
