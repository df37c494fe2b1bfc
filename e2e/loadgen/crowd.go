package loadgen

import (
	"errors"
	"net"
	"sync"
)

// Crowd is clients that arrive at the same moment and stay, without reading what they are answered, until they leave.
type Crowd struct{ conns []net.Conn }

// Arrive opens n connections, to the addresses in turn, and then sends the request on all of them from the same moment
// on.
func Arrive(addrs []string, n int, request []byte) (*Crowd, error) {
	c := &Crowd{}
	for i := range n {
		conn, err := net.Dial("tcp", addrs[i%len(addrs)])
		if err != nil {
			c.Leave()
			return nil, err
		}
		c.conns = append(c.conns, conn)
	}
	start := make(chan struct{})
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i, conn := range c.conns {
		wg.Add(1)
		go func() {
			defer wg.Done()
			<-start
			_, errs[i] = conn.Write(request)
		}()
	}
	close(start)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		c.Leave()
		return nil, err
	}
	return c, nil
}

// Leave closes all connections.
func (c *Crowd) Leave() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}
