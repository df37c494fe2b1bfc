package redisserver

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestDo(t *testing.T) {
	s := StartT(t, Options{})
	binary := []byte("a\x00\r\n\xff")
	for _, c := range []struct {
		args []any
		want string
	}{
		{[]any{"SET", "k", binary}, "OK"},
		{[]any{"STRLEN", "k"}, fmt.Sprint(len(binary))},
		{[]any{"INCRBYFLOAT", "f", 1.5}, "1.5"},
		{[]any{"RPUSH", "l", 1, "two", int64(3)}, "3"},
		{[]any{"LRANGE", "l", 0, -1}, "[1 two 3]"},
		{[]any{"GET", "missing"}, ""},
	} {
		if got := must(t, s, c.args...); got != c.want {
			t.Errorf("%v: %q, want %q", c.args, got, c.want)
		}
	}
	reply, err := s.Do("GET", "k")
	if err != nil || !bytes.Equal(reply.Bytes(), binary) {
		t.Errorf("binary data: %q, %v", reply.Bytes(), err)
	}
	if _, err := s.Do("EVALSHA", strings.Repeat("0", 40), 0); !refused(err, "NOSCRIPT") {
		t.Errorf("an error reply: %v", err)
	}
	if _, err := s.Do(); err == nil {
		t.Error("no command is no error")
	}
}

// TestDoAtOnce sends a command while another one blocks.
func TestDoAtOnce(t *testing.T) {
	s := StartT(t, Options{})
	blocked := make(chan error, 1)
	go func() {
		_, err := s.Do("BLPOP", "l", 0)
		blocked <- err
	}()
	await(t, func() bool {
		info, err := s.Info("clients")
		return err == nil && info["blocked_clients"] == "1"
	})
	must(t, s, "RPUSH", "l", "x")
	if err := <-blocked; err != nil {
		t.Error(err)
	}

	var group sync.WaitGroup
	for range 20 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 50 {
				if _, err := s.Do("INCR", "n"); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	group.Wait()
	if got := must(t, s, "GET", "n"); got != "1000" {
		t.Errorf("replies got mixed up: n is %s", got)
	}
}

// TestOwnUser takes all rights from the default user: the package's own connections are not affected.
func TestOwnUser(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		s := StartT(t, Options{Version: version})
		must(t, s, "ACL", "SETUSER", "default", "off")
		must(t, s, "CONFIG", "SET", "requirepass", "another")
		c, err := s.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got, err := c.Do("ACL", "WHOAMI"); err != nil || got.String() != tester {
			t.Errorf("we are %v, %v", got, err)
		}
	})
}

// TestBusy sends a command to a server that a script keeps busy.
func TestBusy(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		s := StartT(t, Options{Version: version, Config: []string{"lua-time-limit 1"}})
		done := make(chan error, 1)
		go func() {
			_, err := s.Do("EVAL", "while true do end", 0)
			done <- err
		}()
		await(t, func() bool { _, err := s.Do("PING"); return refused(err, "BUSY") })
		must(t, s, "SCRIPT", "KILL")
		var killed ReplyError
		if err := <-done; !errors.As(err, &killed) {
			t.Errorf("the script ends with %v", err)
		}
	})
}

func TestCommandStats(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		s := StartT(t, Options{Version: version})
		script := "for i = 1, 100000 do local x = i * i end return redis.call('INCR', KEYS[1])"
		sha := must(t, s, "SCRIPT", "LOAD", script)
		must(t, s, "CONFIG", "RESETSTAT")
		for range 3 {
			must(t, s, "EVALSHA", sha, 1, "n")
		}
		s.Do("EVALSHA", strings.Repeat("0", 40), 0)
		s.Do("GET")
		stats, err := s.CommandStats()
		if err != nil {
			t.Fatal(err)
		}
		script1 := stats["evalsha"]
		if script1.Calls != 4 || script1.Failed != 1 || script1.Time <= 0 || script1.Time%time.Microsecond != 0 {
			t.Errorf("EVALSHA: %+v", script1)
		}
		if got := stats["get"]; got.Rejected != 1 || got.Calls != 0 {
			t.Errorf("GET: %+v", got)
		}
		if got := stats["incr"].Calls; got != 3 {
			t.Errorf("INCR, called by the script: %d", got)
		}
	})
}

func TestParseStat(t *testing.T) {
	for text, want := range map[string]CommandStat{
		"calls=2,usec=31,usec_per_call=15.50,rejected_calls=3,failed_calls=1": {2, 31 * time.Microsecond, 3, 1},
		"calls=2,usec=31,usec_per_call=15.50":                                 {2, 31 * time.Microsecond, 0, 0},
		"":                                                                    {},
	} {
		if got, err := parseStat(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if _, err := parseStat("calls=many"); err == nil {
		t.Error("a count that is no number is no error")
	}
}
