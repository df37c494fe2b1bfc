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
	if err := c.send(request); err != nil {
		c.Leave()
		return nil, err
	}
	return c, nil
}

// send writes the request on all connections at the same moment.
func (c *Crowd) send(request []byte) error {
	start := make(chan struct{})
	errs := make([]error, len(c.conns))
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
	return errors.Join(errs...)
}

// Leave closes all connections.
func (c *Crowd) Leave() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}
