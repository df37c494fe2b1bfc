package redis

import (
	"errors"
	"fmt"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/pipe"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

// stage is one contender with its owners, at one cluster size.
type stage struct {
	contender
	server      *redisserver.Server
	endpoints   int
	clients     []client
	settings    settings
	heartbeatAt time.Time // of the owners' latest heartbeats
	samples     samples   // of the round
}

func start(s settings, server *redisserver.Server, c contender, endpoints int) (*stage, error) {
	r := &stage{contender: c, server: server, endpoints: endpoints, settings: s}
	for i := range s.owners {
		conn, err := pipe.Dial(server.Addr())
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		// As wide as owners are in the plugin.
		r.clients = append(r.clients, c.open(conn, s, 0xc0ffee00c0ffee00+uint64(i), addresses(endpoints)))
	}
	return r, nil
}

func (r *stage) close() error {
	var errs []error
	for _, c := range r.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// each has the owners do something n times in all, depth at once.
func (r *stage) each(n int, do func(client)) error {
	batch := min(r.settings.depth, max(1, n/len(r.clients)))
	for done, i := 0, 0; done < n; i++ {
		c := r.clients[i%len(r.clients)]
		for range min(batch, n-done) {
			do(c)
			done++
		}
		if err := c.flush(); err != nil {
			return err
		}
	}
	return nil
}

// warm has every owner send the server what it needs before it carries out requests: scripts, endpoints, itself.
func (r *stage) warm() error {
	return errors.Join(r.each(len(r.clients), client.reserve), r.heartbeatAll(), r.drain())
}

// fill puts the steady load on the endpoints. It must be spread evenly, or this is not the least-request algorithm.
func (r *stage) fill() error {
	if err := r.each(r.settings.held*r.endpoints, client.reserve); err != nil {
		return err
	}
	return r.audit(int64(r.settings.held))
}

// keepUp has the owners send heartbeats when these are due.
func (r *stage) keepUp() error {
	if time.Since(r.heartbeatAt) < time.Second {
		return nil
	}
	return r.heartbeatAll()
}

func (r *stage) heartbeatAll() error {
	r.heartbeatAt = time.Now()
	for _, c := range r.clients {
		c.heartbeat()
		if err := c.flush(); err != nil {
			return err
		}
	}
	return nil
}

// drain ends every request.
func (r *stage) drain() error {
	for _, c := range r.clients {
		for c.inFlight() > 0 {
			for range min(r.settings.depth, c.inFlight()) {
				c.release()
			}
			if err := c.flush(); err != nil {
				return err
			}
		}
	}
	return r.audit(0)
}

// audit returns an error unless Redis counts just so many requests at every endpoint.
func (r *stage) audit(want int64) error {
	loads, err := r.loads(r.server, r.endpoints)
	if err != nil {
		return err
	}
	for _, addr := range addresses(r.endpoints) {
		if loads[addr] != want {
			return fmt.Errorf("%d requests are counted at %s, want %d: a run that miscounts measures nothing",
				loads[addr], addr, want)
		}
	}
	return nil
}
