package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// What build/warmgate.sh has built the program from; "" for one that go install has built.
var release, commit string

// build says what the program was built from.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"` // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: release, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = cmp.Or(b.Version, strings.TrimPrefix(info.Main.Version, "v")) // as releases have it
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = cmp.Or(b.Commit, s.Value)
			case "vcs.time":
				b.Time = s.Value
			}
		}
	}
	b.Version = cmp.Or(b.Version, "unknown")
	return b
}

// String returns the build in one line.
func (b build) String() string {
	from := ""
	if b.Commit != "" {
		from = "commit " + b.Commit + ", "
	}
	return fmt.Sprintf("warmgate %s (%s%s, %s)", b.Version, from, b.Go, b.Platform)
}

func newVersion() *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and what it was built from",
		Example: "  warmgate version\n  warmgate version -o json",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			b, out := thisBuild(), command.OutOrStdout()
			if output == "json" {
				return json.NewEncoder(out).Encode(b)
			}
			_, err := fmt.Fprintln(out, b)
			return err
		},
	}
	outputFlag(command, &output, "text", "json")
	return command
}
