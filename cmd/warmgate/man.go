package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write manual pages for all commands into a folder",
		Long:    "Write a manual page for each command into a folder, which is made if it is not there.",
		Example: "  warmgate man man1 && man ./man1/warmgate.1",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			b := thisBuild()
			header := &doc.GenManHeader{Section: "1", Source: "warmgate " + b.Version, Manual: "Warmgate"}
			if at, err := time.Parse(time.RFC3339, b.Time); err == nil { // else it is today
				header.Date = &at
			}
			root := command.Root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, header, args[0])
		},
	}
}
