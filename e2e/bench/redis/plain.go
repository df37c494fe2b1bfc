package redis

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/pipe"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/redisclient"
)

// plainClient is the published way to share counts: one hash of counters per cluster, the endpoints sent along with
// every request, no lease.
type plainClient struct {
	*pipe.Conn
	key       string
	words     []string // of the command that reserves
	endpoints []string // the end of words; which one is first is drawn for each
	prompts   *prompts // that go along; nil for none
	cmd       []byte
	held      []string
	failed    error
}

// plainContender makes a contender of a script. whole sends the script's text each time instead of its hash.
func plainContender(name, what, script string, whole bool) contender {
	key := func(endpoints int) string { return name + ":" + clusterName(endpoints) }
	return contender{
		name: name, what: what,
		open: func(c *pipe.Conn, _ settings, _ uint64, endpoints []string) client {
			p := &plainClient{Conn: c, key: key(len(endpoints))}
			sum := sha1.Sum([]byte(script))
			p.words = []string{"EVALSHA", hex.EncodeToString(sum[:]), "1", p.key}
			if whole {
				p.words[0], p.words[1] = "EVAL", script
			} else {
				p.do(func(redisclient.Value) {}, "SCRIPT", "LOAD", script)
			}
			head := len(p.words)
			p.words = append(p.words, endpoints...)
			p.endpoints = p.words[head:]
			return p
		},
		loads: func(s *redisserver.Server, endpoints int) (map[string]int64, error) { return hash(s, key(endpoints)) },
	}
}

// do sends a command and passes a good answer on.
func (p *plainClient) do(done func(redisclient.Value), words ...string) {
	p.cmd = redisclient.AppendCommand(p.cmd[:0], words...)
	p.Do(0, p.cmd, func(_ time.Duration, reply []byte, _ error) {
		v, _, err := redisclient.Parse(reply)
		if err == nil && v.Kind == redisclient.ErrorReply {
			err = fmt.Errorf("%s: %s", words[0], v.Str)
		}
		if err != nil {
			p.failed = errors.Join(p.failed, err)
			return
		}
		done(v)
	})
}

func (p *plainClient) reserve() {
	first := rand.IntN(len(p.endpoints))
	p.endpoints[0], p.endpoints[first] = p.endpoints[first], p.endpoints[0]
	words := p.words
	if p.prompts != nil {
		words = append(words[:len(words):len(words)], p.prompts.digests()...)
	}
	p.do(func(v redisclient.Value) { p.held = append(p.held, string(v.Str)) }, words...)
}

func (p *plainClient) release() {
	host := p.held[0]
	p.held = p.held[1:]
	p.do(func(v redisclient.Value) {
		if v.Int < 0 {
			p.failed = errors.Join(p.failed, fmt.Errorf("%d requests in flight at %s", v.Int, host))
		}
	}, "HINCRBY", p.key, host, "-1")
}

func (p *plainClient) heartbeat() {}

func (p *plainClient) inFlight() int { return len(p.held) }

func (p *plainClient) flush() error { return errors.Join(p.Conn.Flush(), p.failed) }
