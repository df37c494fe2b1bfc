package redisclient

import (
	"strconv"
	"time"
)

// The name of a Redis may lead to a master and to its replicas, as that of a headless service does. A replica runs no
// script that writes: it answers READONLY. It knows its master, though: the client asks for that (ROLE) and sends
// everything there from then on, if the transport reaches servers by address and the replica names its master by one.

const (
	// roleTries is how many servers are asked in a row: the name may lead to the master itself, which does not know by
	// which address it is reached.
	roleTries = 4
	// roleTimeout is how long an answer to that is waited for.
	roleTimeout = time.Second
	// replicaMemory is how long a replica that was met counts, while none is met again.
	replicaMemory = 5 * time.Second
)

// master is what is known of the servers that the name leads to.
type master struct {
	addr         string        // "" unless a replica has named it
	replicaUntil time.Duration // until then it counts that a replica has refused a command
	askingUntil  time.Duration
}

// metReplica is called when a server has refused a command because it is a replica.
func (c *client) metReplica(now time.Duration) {
	c.master.addr, c.master.replicaUntil = "", now+replicaMemory
	c.findMaster(now)
}

// findMaster asks for the master, unless an answer to that is still to come. It is also called when a server does not
// have what was just written: a replica that lags answers that, and never READONLY, if it alone gets what only reads.
func (c *client) findMaster(now time.Duration) {
	if _, ok := c.transport.(Redirector); ok && c.master.addr == "" && now >= c.master.askingUntil {
		c.askRole(now, roleTries)
	}
}

// askRole asks a server that the name leads to for its master, and so many in all.
func (c *client) askRole(now time.Duration, tries int) {
	c.master.askingUntil = now + roleTimeout
	c.transport.Do(now, AppendCommand(nil, "ROLE"), func(now time.Duration, reply []byte, err error) {
		v, err := parseReply(reply, err)
		switch {
		case err != nil || v.Kind != Array || len(v.Items) < 3:
		case string(v.Items[0].Str) == "slave":
			c.master.addr = redirectTarget(string(v.Items[1].Str) + ":" + v.Items[2].text())
			c.master.replicaUntil = now + replicaMemory
		case tries > 1:
			c.askRole(now, tries-1)
			return
		}
		if c.master.addr != "" {
			c.master.askingUntil = 0 // else not again at once: there may be none
		}
	})
}

// text returns what a string or an integer is.
func (v Value) text() string {
	if v.Kind == Integer {
		return strconv.FormatInt(v.Int, 10)
	}
	return string(v.Str)
}
