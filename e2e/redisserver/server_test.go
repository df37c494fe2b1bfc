package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// each runs a test on every version.
func each(t *testing.T, test func(t *testing.T, version string)) {
	for _, version := range Versions() {
		t.Run(version, func(t *testing.T) { test(t, version) })
	}
}

// must returns the reply as text.
func must(t *testing.T, s *Server, args ...any) string {
	t.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply.String()
}

func TestVersion(t *testing.T) {
	fields := map[string]string{Valkey81: "valkey_version", Redis70: "redis_version", Redis62: "redis_version"}
	each(t, func(t *testing.T, version string) {
		s := StartT(t, Options{Version: version})
		info, err := s.Info("server")
		if err != nil {
			t.Fatal(err)
		}
		_, series, _ := strings.Cut(version, "-")
		if got := info[fields[version]]; !strings.HasPrefix(got, series+".") {
			t.Errorf("the server's version is %q", got)
		}
		if info["process_id"] != fmt.Sprint(s.PID()) || info["tcp_port"] != fmt.Sprint(s.Port()) {
			t.Errorf("process %s on port %s, want %d on %d", info["process_id"], info["tcp_port"], s.PID(), s.Port())
		}
		if got := must(t, s, "CONFIG", "GET", "save"); got != "[save ]" {
			t.Errorf("the server saves: %s", got)
		}
	})
}

func TestKillAndRestart(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		s := StartT(t, Options{Version: version})
		must(t, s, "SET", "k", "v")
		addr, pid := s.Addr(), s.PID()
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("connecting to a killed server: %v", err)
		}
		if _, err := s.Do("PING"); err == nil {
			t.Error("a killed server answers")
		}
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.Addr() != addr || s.PID() == pid {
			t.Errorf("was %s (%d), is %s (%d)", addr, pid, s.Addr(), s.PID())
		}
		if got := must(t, s, "EXISTS", "k"); got != "0" {
			t.Errorf("the killed server kept its data: EXISTS returns %s", got)
		}
		if err := s.Restart(t.Context()); err != nil { // of a running server
			t.Fatal(err)
		}
	})
}

// TestFreeze checks the property that matters: what a client sends to a frozen server is carried out once it continues.
func TestFreeze(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		s := StartT(t, Options{Version: version})
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := s.Freeze(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("INCR n\r\n")); err != nil {
			t.Fatal(err)
		}
		var buffer [64]byte
		c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := c.Read(buffer[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a frozen server answers %q, %v", buffer[:n], err)
		}
		if err := s.Thaw(); err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(time.Now().Add(replyTimeout))
		if n, err := c.Read(buffer[:]); err != nil || string(buffer[:n]) != ":1\r\n" {
			t.Errorf("after the thaw: %q, %v", buffer[:n], err)
		}
		if err := errors.Join(s.Freeze(), s.Kill()); err != nil { // a frozen process ends, too
			t.Error(err)
		}
	})
}

// TestConfig starts a server that needs a password and keeps its data in a folder of the caller's.
func TestConfig(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		dir := t.TempDir()
		s := StartT(t, Options{
			Version: version, Dir: dir,
			Config: []string{"requirepass secret", "maxmemory 50mb", "maxmemory 60mb"},
		})
		if got := must(t, s, "CONFIG", "GET", "maxmemory"); got != "[maxmemory 62914560]" {
			t.Errorf("a later line does not win: %s", got)
		}
		c, err := s.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Do("AUTH", "default", "wrong"); !refused(err, "WRONGPASS") {
			t.Errorf("a wrong password: %v", err)
		}
		if _, err := c.Do("AUTH", "secret"); err != nil {
			t.Errorf("the password: %v", err)
		}
		must(t, s, "SET", "k", "v")
		must(t, s, "SAVE")
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := must(t, s, "GET", "k"); got != "v" {
			t.Errorf("lost what was saved: %q", got)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "dump.rdb")); err != nil {
			t.Errorf("Stop deletes the caller's folder: %v", err)
		}
	})
}

// refused reports whether the error is the server's and starts with the code.
func refused(err error, code string) bool {
	var reply ReplyError
	return errors.As(err, &reply) && strings.HasPrefix(string(reply), code+" ")
}

// slowLoading makes a server take 0.1 s for each key of a dump. It answers other commands in between only after every 2
// MiB, compressed.
var slowLoading = []string{"key-load-delay 100000", "rdbcompression no"}

// TestLoading restarts a server that takes long to load its data.
func TestLoading(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		s := StartT(t, Options{Version: version, Config: slowLoading})
		must(t, s, "EVAL", "for i = 1, 40 do redis.call('SET', i, string.rep('x', 1000000)) end", 0)
		must(t, s, "SAVE")
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Do("GET", "k"); !refused(err, "LOADING") {
			t.Errorf("while the server loads: %v", err)
		}
	})
}

func TestStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := Start(ctx, Options{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case <-s.process.Done():
	case <-time.After(startTimeout):
		t.Fatal("the server outlives its context")
	}
	if err := errors.Join(s.Stop(), s.Stop()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.Socket()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stop leaves its folder: %v", err)
	}
	if err := s.Restart(t.Context()); err == nil {
		t.Error("a stopped server starts again")
	}
}

func TestStartErrors(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"unknown version": {Options{Version: "redis-1.0"}, `unknown version "redis-1.0"`},
		"bad directive":   {Options{Config: []string{"no-such-directive 1"}}, "no-such-directive"},
		"missing folder":  {Options{Dir: "/nonexistent"}, "No such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Start(t.Context(), c.options)
			if err == nil {
				s.Stop()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// TestPortTaken gives the port of a server that is down to another socket.
func TestPortTaken(t *testing.T) {
	s := StartT(t, Options{})
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context()); !errors.Is(err, errPortTaken) {
		t.Errorf("with the port taken: %v", err)
	}
	l.Close()
	if err := s.Restart(t.Context()); err != nil {
		t.Errorf("with the port free again: %v", err)
	}
}

// TestOwnBinary runs the server that REDIS names, unless a version is named.
func TestOwnBinary(t *testing.T) {
	own, err := find(t.Context(), Valkey81)
	if err != nil {
		t.Skip(err)
	}
	t.Setenv("REDIS", own.path)
	for version, want := range map[string]string{"": own.path, Valkey81: own.path} {
		if got, err := find(t.Context(), version); err != nil || got.path != want {
			t.Errorf("%q: %v, %v", version, got, err)
		}
	}
	t.Setenv("REDIS", "/nonexistent/redis-server")
	if _, err := find(t.Context(), ""); err == nil {
		t.Error("a missing binary is no error")
	}
	if _, err := find(t.Context(), Valkey81); err != nil {
		t.Errorf("REDIS overrides a version that is named: %v", err)
	}
}
