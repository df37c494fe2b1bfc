package redisserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/wait"
)

const (
	// busOffset is the distance from a server's port to its cluster bus. It is the default of every version, and the
	// only one of 6.2.
	busOffset = 10000

	clusterTimeout = harness.Patience // until all nodes agree; it takes 3 s on a machine that is not busy
	clusterStep    = 20 * time.Millisecond
)

// Cluster is a Redis Cluster of masters without replicas. Its methods may be called from several goroutines.
type Cluster struct {
	servers []*Server
	ids     []string // node id of each server

	mu     sync.Mutex
	owners [Slots]int // index of the server that owns each slot
}

// StartCluster runs a cluster of servers that share the slots evenly. It returns when all of them take commands for all
// slots. It runs as long as a server of Start does.
func StartCluster(ctx context.Context, masters int, o Options) (*Cluster, error) {
	if masters < 1 || o.Dir != "" {
		return nil, errors.New("redisserver: a cluster needs at least one master, and a folder of its own for each")
	}
	o.Config = append([]string{"cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 2000"},
		o.Config...)
	c := &Cluster{}
	err := func() error {
		for range masters {
			s, err := start(ctx, o, busOffset)
			if err != nil {
				return err
			}
			c.servers = append(c.servers, s)
		}
		return c.join(ctx)
	}()
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// join makes one cluster of the servers and waits until all of them know it.
func (c *Cluster) join(ctx context.Context) error {
	for i := range c.servers {
		if err := c.assign(i); err != nil {
			return err
		}
	}
	for i, s := range c.servers {
		for _, other := range c.servers[i+1:] {
			if _, err := s.Do("CLUSTER", "MEET", "127.0.0.1", other.Port()); err != nil {
				return err
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	return c.awaitReady(ctx)
}

// assign gives a server its slots.
func (c *Cluster) assign(i int) error {
	s, n := c.servers[i], len(c.servers)
	add := []any{"CLUSTER", "ADDSLOTS"}
	for slot := i * Slots / n; slot < (i+1)*Slots/n; slot++ {
		c.owners[slot] = i
		add = append(add, slot)
	}
	id, err := s.Do("CLUSTER", "MYID")
	if err != nil {
		return err
	}
	c.ids = append(c.ids, id.String())
	if _, err := s.Do(add...); err != nil {
		return err
	}
	// Nodes that start with the same epoch would first have to resolve that conflict.
	_, err = s.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	return err
}

// awaitReady waits until every server knows all others and serves every slot.
func (c *Cluster) awaitReady(ctx context.Context) error {
	for _, s := range c.servers {
		ready := func() (bool, error) { return s.clusterReady(len(c.servers)) }
		if err := wait.Poll(ctx, clusterStep, ready); err != nil {
			return fmt.Errorf("redisserver: the cluster does not form: %w\n%s", err, s.Logs())
		}
	}
	return nil
}

// clusterReady reports whether a server knows n masters that own all slots.
func (s *Server) clusterReady(n int) (bool, error) {
	reply, err := s.Do("CLUSTER", "INFO")
	if err != nil {
		return false, err
	}
	fields := parseFields(reply.String())
	return fields["cluster_state"] == "ok" && fields["cluster_size"] == strconv.Itoa(n) &&
		fields["cluster_known_nodes"] == strconv.Itoa(n) && fields["cluster_slots_ok"] == strconv.Itoa(Slots), nil
}

// Servers returns the masters. The index of a server is its name in the methods of the cluster.
func (c *Cluster) Servers() []*Server { return c.servers }

// Owner returns the index of the server that owns a slot. During a migration it is the one that the slot leaves.
func (c *Cluster) Owner(slot int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owners[slot]
}

// Stop stops all servers. Calling it again does nothing.
func (c *Cluster) Stop() error {
	var errs []error
	for _, s := range c.servers {
		errs = append(errs, s.Stop())
	}
	return errors.Join(errs...)
}

// Migration is a slot on its way between two servers. Until Finish, its owner answers ASK for keys that it does not
// have. When it has some of a command's keys only it answers TRYAGAIN, or ASK before Redis 7.0.
type Migration struct {
	cluster        *Cluster
	slot, from, to int
}

// StartMigration opens a slot for its move to the server with index to. No key moves yet.
func (c *Cluster) StartMigration(slot, to int) (*Migration, error) {
	from := c.Owner(slot)
	if from == to {
		return nil, fmt.Errorf("redisserver: slot %d is at server %d already", slot, to)
	}
	if _, err := c.servers[to].Do("CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[from]); err != nil {
		return nil, err
	}
	if _, err := c.servers[from].Do("CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[to]); err != nil {
		return nil, err
	}
	return &Migration{cluster: c, slot: slot, from: from, to: to}, nil
}

// MoveKeys moves the keys that the old owner has. New ones are created at the new owner, which ASK names.
func (m *Migration) MoveKeys() error {
	const batch = 100
	source, target := m.cluster.servers[m.from], m.cluster.servers[m.to]
	for {
		keys, err := source.Do("CLUSTER", "GETKEYSINSLOT", m.slot, batch)
		if err != nil || len(keys.Array()) == 0 {
			return err
		}
		command := []any{
			"MIGRATE", "127.0.0.1", target.Port(), "", 0, replyTimeout.Milliseconds() / 2, "AUTH2", tester,
			"any", "KEYS",
		}
		for _, key := range keys.Array() {
			command = append(command, key.Bytes())
		}
		if _, err := source.Do(command...); err != nil {
			return err
		}
	}
}

// Finish makes the new server the owner, first in its own view, so that the slot always has an owner.
func (m *Migration) Finish() error {
	c := m.cluster
	order := []*Server{c.servers[m.to], c.servers[m.from]}
	for i, s := range c.servers {
		if i != m.to && i != m.from {
			order = append(order, s)
		}
	}
	for _, s := range order {
		if _, err := s.Do("CLUSTER", "SETSLOT", m.slot, "NODE", c.ids[m.to]); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owners[m.slot] = m.to
	return nil
}

// Slots is the number of slots of a cluster.
const Slots = 16384

// Slot returns the slot of a key: of the part between the first { and the next } when that is not empty, else of the
// whole key.
func Slot(key string) int {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, found := strings.Cut(rest, "}"); found && tag != "" {
			key = tag
		}
	}
	var crc uint16 // CRC-16/XMODEM
	for _, b := range []byte(key) {
		crc ^= uint16(b) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return int(crc) % Slots
}
