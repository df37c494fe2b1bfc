package attacks

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
)

// shot is one request of an attacker: bytes on a connection of its own.
type shot struct {
	due  time.Duration
	text []byte
	hold time.Duration // close the connection after that, answered or not; 0: when it is answered
}

// attackerIP is the attacker's address.
const attackerIP = "127.0.0.2"

// answerTimeout is how long an attacker waits for an answer.
const answerTimeout = 30 * time.Second

// What an attacker may get instead of a status.
const (
	gotNothing = "none"    // the connection was closed without an answer, by the gateway or as planned
	gotRefused = "refused" // no connection
)

// fire sends the shots when they are due, each from the attacker's address on a connection of its own, and returns what
// came back: how often each status.
func fire(ctx context.Context, addr string, shots []shot, start time.Time) map[string]int {
	got := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range shots {
		if wait.For(ctx, time.Until(start.Add(shots[i].due))) != nil {
			break
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			answer := shots[i].send(ctx, addr)
			mu.Lock()
			defer mu.Unlock()
			got[answer]++
		}()
	}
	wg.Wait()
	return got
}

// send sends the shot, reads the answer to its end and returns its status.
func (s *shot) send(ctx context.Context, addr string) string {
	conn, err := loadgen.DialerFrom(attackerIP).DialContext(ctx, "tcp", addr)
	if err != nil {
		return gotRefused
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	timeout := answerTimeout
	if s.hold > 0 {
		timeout = s.hold
	}
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return gotNothing
	}
	return s.exchange(conn)
}

func (s *shot) exchange(conn net.Conn) string {
	if _, err := conn.Write(s.text); err != nil {
		return gotNothing
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return gotNothing
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // whatever ends it
	return strconv.Itoa(resp.StatusCode)
}
