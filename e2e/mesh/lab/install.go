package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

// Block returns the only fenced block of a document in a language that contains a text.
func Block(t testing.TB, document, language, text string) string {
	t.Helper()
	var found []string
	for _, block := range Blocks(t, document, language) {
		if strings.Contains(block, text) {
			found = append(found, block)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s has %d blocks with %q", document, len(found), text)
	}
	return found[0]
}

// Blocks returns the fenced blocks of a document in a language.
func Blocks(t testing.TB, document, language string) (list []string) {
	t.Helper()
	pattern := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$")
	for _, m := range pattern.FindAllStringSubmatch(string(harness.ReadT(t, document)), -1) {
		list = append(list, m[1])
	}
	return list
}

// Commands returns the commands of a console block: the lines behind a prompt, to which a backslash adds the next one.
func Commands(block string) (list []string) {
	for _, line := range strings.Split(strings.ReplaceAll(block, "\\\n", ""), "\n") {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			list = append(list, command)
		}
	}
	return list
}

// Applied returns the files in deploy/ that a command hands to the API server, in order.
func Applied(command string) (files []string) {
	for _, m := range regexp.MustCompile(` -f (deploy/\S+)`).FindAllStringSubmatch(command, -1) {
		files = append(files, m[1])
	}
	return files
}

// What a user replaces in the commands: the registry, and the gateway's address.
const (
	exampleRegistry = "REGISTRY=registry.example.com/warmgate"
	exampleGateway  = "http://GATEWAY/"
)

// The programs that are not there in tests. make is run in the source tree, so that it need not be copied and built
// once more.
const (
	gitInstead = `[ "$*" = "clone https://github.com/warmgate/warmgate" ]
mkdir warmgate
cp -r "$ROOT/deploy" warmgate/deploy
`
	makeInstead    = `exec "$OWN_MAKE" -C "$ROOT" "$@"` + "\n"
	kubectlInstead = `[ "$1" = apply ]
shift
while [ "$#" -gt 0 ]; do
	[ "$1" = -f ]
	echo ---
	cat "$2"
	shift 2
done >>"$APPLIED"
`
)

// Install runs the commands by which a document installs Warmgate, as they are printed: at most five, of which the last
// one sends a request. The images go to a registry at ip:port; what would go to the API server is returned, and so is
// the last command, for Requested.
func Install(t testing.TB, document, registry string) (applied, request string) {
	t.Helper()
	const most = 5
	commands := Commands(Block(t, document, "console", "make push-image"))
	last := len(commands) - 1
	if last < 1 || last >= most || !strings.HasPrefix(commands[last], "curl ") {
		t.Fatalf("%s installs by %q", document, commands)
	}
	script := strings.Join(commands[:last], "\n")
	if strings.Count(script, exampleRegistry) != 1 {
		t.Fatalf("%s: not one %s", document, exampleRegistry)
	}
	script = strings.Replace(script, exampleRegistry, "REGISTRY="+registry+"/warmgate", 1)
	begun := time.Now()
	applied = Applying(t, t.TempDir(), script)
	t.Logf("%s: all commands but the last took %v", document, time.Since(begun).Round(time.Second))
	return applied, commands[last]
}

// Applying runs commands in a folder, and returns the resources that they hand to the API server.
func Applying(t testing.TB, folder, script string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"git": gitInstead, "make": makeInstead, "kubectl": kubectlInstead} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nset -eu\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	own, err := exec.LookPath("make")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "applied.yaml")
	cmd := exec.CommandContext(t.Context(), "sh", "-euxc", script)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "ROOT="+harness.PathT(t, "."), "OWN_MAKE="+own,
		"MAKEFLAGS=", "APPLIED="+file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Requested runs the last command of Install until it is answered 200.
func (g *Gateway) Requested(t testing.TB, command string) {
	t.Helper()
	if strings.Count(command, exampleGateway) != 1 {
		t.Fatalf("%s: not one %s", command, exampleGateway)
	}
	command = strings.Replace(command, exampleGateway, g.URL+"/", 1)
	harness.Await(t, func() error {
		out, err := exec.CommandContext(t.Context(), "sh", "-euc", command).Output()
		if err != nil || !strings.Contains(string(out), "200 OK") {
			return fmt.Errorf("%s: %v\n%s", command, err, out)
		}
		return nil
	})
}
