package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

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
		b.Version = cmp.Or(b.Version, info.Main.Version)
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
			switch output {
			case "text":
				_, err := fmt.Fprintln(out, b)
				return err
			case "json":
				return json.NewEncoder(out).Encode(b)
			}
			return fmt.Errorf("no format %q, want text or json", output)
		},
	}
	outputFlag(command, &output, "text", "json")
	return command
}

// outputFlag adds the flag for the format of what a command prints. The first one is the default.
func outputFlag(command *cobra.Command, into *string, formats ...string) {
	list := ""
	for i, f := range formats {
		if i > 0 {
			list += ", "
		}
		list += f
	}
	command.Flags().StringVarP(into, "output", "o", formats[0], "format: "+list)
	complete := cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)
	if err := command.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(err) // the flag is there
	}
}
