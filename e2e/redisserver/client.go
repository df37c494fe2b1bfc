package redisserver

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/resp"

	"github.com/warmgate/warmgate/e2e/harness"
)

// replyTimeout bounds every command: a frozen server must not hang a test forever.
const replyTimeout = harness.Patience

// ReplyError is an error that the server answered, such as "NOSCRIPT No matching script.".
type ReplyError string

// Error returns the server's text.
func (e ReplyError) Error() string { return string(e) }

// Conn is one connection with one command at a time. It acts as a user with all rights, whatever the default user may
// do; AUTH changes that.
type Conn struct {
	conn   net.Conn
	reader *resp.Reader
}

// Dial opens a connection of the caller's own, for commands that change its state, such as AUTH, SELECT, MULTI or
// ASKING.
func (s *Server) Dial() (*Conn, error) { return dial("unix", s.Socket()) }

func dial(network, addr string) (*Conn, error) {
	conn, err := net.DialTimeout(network, addr, replyTimeout)
	if err != nil {
		return nil, fmt.Errorf("redisserver: %w", err)
	}
	c := &Conn{conn: conn, reader: resp.NewReader(conn)}
	if _, err := c.Do("AUTH", tester, "any"); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Do sends one command and waits up to replyTimeout for its reply. Arguments are sent as fmt prints them, byte slices
// as they are. An error reply is returned as a ReplyError; after any other error the connection cannot be used any
// more.
func (c *Conn) Do(args ...any) (resp.Value, error) {
	if len(args) == 0 {
		return resp.Value{}, fmt.Errorf("redisserver: no command")
	}
	command, err := resp.MultiBulkValue(fmt.Sprint(args[0]), args[1:]...).MarshalRESP()
	if err != nil {
		return resp.Value{}, fmt.Errorf("redisserver: %w", err)
	}
	if err := c.conn.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return resp.Value{}, fmt.Errorf("redisserver: %w", err)
	}
	if _, err := c.conn.Write(command); err != nil {
		return resp.Value{}, fmt.Errorf("redisserver: %w", err)
	}
	reply, _, err := c.reader.ReadValue()
	if err != nil {
		return resp.Value{}, fmt.Errorf("redisserver: %v: %w", args[0], err)
	}
	if reply.Type() == resp.Error {
		return reply, ReplyError(reply.String())
	}
	return reply, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// Do sends one command and waits up to replyTimeout for its reply, on a connection of its own if others are busy. An
// error reply is returned as a ReplyError. See Conn.Do.
func (s *Server) Do(args ...any) (resp.Value, error) {
	c := s.idle.take()
	if c == nil {
		var err error
		if c, err = s.Dial(); err != nil {
			return resp.Value{}, err
		}
	}
	reply, err := c.Do(args...)
	if _, refused := err.(ReplyError); err == nil || refused {
		s.idle.give(c)
	} else {
		c.Close()
	}
	return reply, err
}

// idleConns keeps connections between commands.
type idleConns struct {
	mu    sync.Mutex
	conns []*Conn
}

func (l *idleConns) take() *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) == 0 {
		return nil
	}
	c := l.conns[len(l.conns)-1]
	l.conns = l.conns[:len(l.conns)-1]
	return c
}

func (l *idleConns) give(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
}

func (l *idleConns) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

// Info returns the fields of one section of INFO, such as "memory".
func (s *Server) Info(section string) (map[string]string, error) {
	reply, err := s.Do("INFO", section)
	if err != nil {
		return nil, err
	}
	return parseFields(reply.String()), nil
}

// parseFields reads lines of name:value.
func parseFields(text string) map[string]string {
	fields := map[string]string{}
	for _, line := range strings.Split(text, "\r\n") {
		if name, value, found := strings.Cut(line, ":"); found {
			fields[name] = value
		}
	}
	return fields
}

// CommandStat is what a server has counted of one command.
type CommandStat struct {
	Calls int64 // executed
	// CPU time of the execution, to the microsecond, without reading the command and writing the reply
	Time     time.Duration
	Rejected int64 // refused before execution
	Failed   int64 // executed with an error as the result
}

// CommandStats returns the counters of each command since the start or the last CONFIG RESETSTAT, by lower-case name. A
// subcommand is named as in "script|load" since Redis 7.0. The package's own connections add "auth" and what Do sends.
func (s *Server) CommandStats() (map[string]CommandStat, error) {
	fields, err := s.Info("commandstats")
	if err != nil {
		return nil, err
	}
	stats := map[string]CommandStat{}
	for field, text := range fields {
		name, found := strings.CutPrefix(field, "cmdstat_")
		if !found {
			continue
		}
		if stats[name], err = parseStat(text); err != nil {
			return nil, fmt.Errorf("redisserver: INFO commandstats: %s:%s: %w", field, text, err)
		}
	}
	return stats, nil
}

// parseStat reads "calls=2,usec=31,usec_per_call=15.50,rejected_calls=0,failed_calls=0".
func parseStat(text string) (CommandStat, error) {
	var stat CommandStat
	var micros int64
	known := map[string]*int64{
		"calls": &stat.Calls, "usec": &micros, "rejected_calls": &stat.Rejected,
		"failed_calls": &stat.Failed,
	}
	for _, pair := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(pair, "=")
		target := known[name]
		if target == nil {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return CommandStat{}, err
		}
		*target = n
	}
	stat.Time = time.Duration(micros) * time.Microsecond
	return stat, nil
}
