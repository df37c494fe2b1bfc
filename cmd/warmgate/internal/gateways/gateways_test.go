package gateways

import (
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/warmgate/warmgate/internal/snapshot"
)

// sources returns what a command line names.
func sources(t *testing.T, line string) ([]snapshot.Source, *snapshot.RedisSource, error) {
	t.Helper()
	var (
		f    Flags
		args []string
	)
	command := &cobra.Command{Run: func(_ *cobra.Command, named []string) { args = named }}
	f.Add(command)
	f.AddRedis(command)
	command.SetArgs(strings.Fields(line))
	if err := command.Execute(); err != nil {
		t.Fatal(err)
	}
	return f.Sources(args)
}

// files writes files into the current folder, which is one of the test's own.
func files(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"token": "secret-of-all\n", "empty": "\n", "two": "a\nb\n", "sub/own": "secret-of-one", "pw": "redis-secret",
		"sub/all.yaml": `gateways:
- {name: eu-1, region: eu, admin: "http://10.0.0.1:15000", inspect: "https://10.0.0.1/x", token_file: own}
- {inspect: "10.0.0.2:80"}
redis: {url: "redis://10.0.0.9/3", password_file: own}
`,
		"odd.yaml": "gateways: [{admin: a:1, secret: b}]", "map.yaml": "gateways: {a: b}",
		"none.yaml": "gateways: [{name: a}]", "void.yaml": "",
		"twice.yaml": "gateways: [{admin: a:1}, {admin: a:1}]", "lost.yaml": "gateways: [{admin: a:1, token_file: no}]",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSources reads how gateways are named.
func TestSources(t *testing.T) {
	files(t)
	listener, err := net.Listen("unix", "admin")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	type list = []snapshot.Source
	for line, want := range map[string]list{
		"127.0.0.1:9901": {{Name: "127.0.0.1:9901", Admin: "http://127.0.0.1:9901"}},
		"admin":          {{Name: "admin", Admin: "unix:admin"}},
		"gone/a.sock":    {{Name: "gone/a.sock", Admin: "unix:gone/a.sock"}},
		"unix:/a/b.sock": {{Name: "/a/b.sock", Admin: "unix:/a/b.sock"}},
		"--gateway eu=https://u:p@a/x --gateway us=b:1": {
			{Name: "eu", Admin: "https://u:p@a/x"}, {Name: "us", Admin: "http://b:1"},
		},
		"a:1 --inspect http://a --token-file token": {
			{Name: "a:1", Admin: "http://a:1", Inspect: "http://a/warmgate/inspect", Token: "secret-of-all"},
		},
		"a:1 --gateway b=b:1 --inspect b=http://b/y --inspect c=c:2/": {
			{Name: "a:1", Admin: "http://a:1"},
			{Name: "b", Admin: "http://b:1", Inspect: "http://b/y"},
			{Name: "c", Inspect: "http://c:2/warmgate/inspect"},
		},
		"--config sub/all.yaml --token-file token a:1": {
			{
				Name: "eu-1", Region: "eu", Admin: "http://10.0.0.1:15000", Inspect: "https://10.0.0.1/x",
				Token: "secret-of-one",
			},
			{
				Name: "10.0.0.2:80", Inspect: "http://10.0.0.2:80/warmgate/inspect", Token: "secret-of-all",
			},
			{Name: "a:1", Admin: "http://a:1"},
		},
	} {
		if got, _, err := sources(t, line); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v %v", line, got, err)
		}
	}
}

// TestRedis reads where Redis is.
func TestRedis(t *testing.T) {
	files(t)
	for line, want := range map[string]*snapshot.RedisSource{
		"a:1":                           nil,
		"a:1 --redis unix:/r.sock":      {Address: "unix:/r.sock"},
		"a:1 --redis redis://u:p@r:1/2": {Address: "r:1", Username: "u", Password: "p", Database: 2},
		"a:1 --redis-password-file pw --redis redis://u@[::1]": {
			Address: "[::1]:6379", Username: "u", Password: "redis-secret",
		},
		"--config sub/all.yaml": {
			Address: "10.0.0.9:6379", Database: 3, Password: "secret-of-one",
		},
		"--config sub/all.yaml --redis redis://other": {Address: "other:6379"},
	} {
		if _, got, err := sources(t, line); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v %v", line, got, err)
		}
	}
	if _, got, err := sources(t, "a:1 --redis rediss://r:7"); err != nil || got.TLS.ServerName != "r" {
		t.Errorf("%+v %v", got, err)
	}
}

// TestMistakes says what is wrong with a command line, and repeats no password.
func TestMistakes(t *testing.T) {
	files(t)
	for line, want := range map[string]string{
		"":                           "no gateway is named",
		"ftp://u:secret@a":           "not valid",
		"http://a:1?key=secret":      "has a query",
		"http://secret@[bad":         "not valid",
		"a:1 a:1":                    "two gateways have the name a:1",
		"a:1 --inspect b=ftp://x":    "not valid",
		"a:1 b:1 --inspect http://c": "of which gateway is it",
		"--inspect a=http://a --inspect a=http://b":          "has two URLs",
		"a:1 --token-file token":                             "want --inspect",
		"a:1 --token-file empty":                             "want one line",
		"a:1 --token-file two":                               "want one line",
		"a:1 --token-file nowhere":                           "no such file",
		"--config nowhere":                                   "no such file",
		"--config odd.yaml":                                  "odd.yaml: line 1: unknown key secret",
		"--config map.yaml":                                  "map.yaml: line 1: a value of the wrong type",
		"--config none.yaml":                                 "gateway 1: want admin, inspect or both",
		"--config twice.yaml":                                "two gateways have the name a:1",
		"--config lost.yaml":                                 "no such file",
		"--config void.yaml":                                 "no gateway is named",
		"a:1 --redis http://u:secret@r":                      "begins with none",
		"a:1 --redis redis://u:secret@r/x":                   "not the number of a database",
		"a:1 --redis redis://u:secret@r/1?x=1":               "URL of Redis is not valid",
		"a:1 --redis-ca token":                               "no URL of the Redis",
		"a:1 --redis redis://r --redis-ca token":             "want PEM certificates",
		"a:1 --redis rediss://r --redis-ca token":            "want PEM certificates",
		"a:1 --redis rediss://r --redis-ca nowhere":          "no such file",
		"a:1 --redis redis://r --redis-password-file absent": "no such file",
	} {
		_, _, err := sources(t, line)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		} else if strings.Contains(err.Error(), "struct") {
			t.Errorf("%s: speaks of Go: %v", line, err)
		} else if strings.Contains(err.Error(), "u:secret") || strings.Contains(err.Error(), "=secret") {
			t.Errorf("%s: repeats the secret: %v", line, err)
		}
	}
}
