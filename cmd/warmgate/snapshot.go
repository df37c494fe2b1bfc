package main

import (
	"github.com/spf13/cobra"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/gateways"
	"github.com/warmgate/warmgate/internal/snapshot"
)

func newSnapshot() *cobra.Command {
	var named gateways.Flags
	command := &cobra.Command{
		Use:   "snapshot [ADDRESS...]",
		Short: "Print what gateways know, as JSON, without secrets",
		Long: `Print what gateways know, as one JSON text for the report of a problem: what their administration says, the plugin's
statistics, configurations and state, and what gateways share in Redis. Secrets are left out, and no request's text is
in it. Nothing is changed anywhere.

` + gateways.Help + `

The exit status is 0 if everything could be read, 1 if something could not, which the JSON then says, and 2 if the
command is wrong.`,
		Example: `  warmgate snapshot http://127.0.0.1:9901 >snapshot.json
  warmgate snapshot admin.sock --inspect http://127.0.0.1:10000/warmgate/inspect --token-file token`,
		RunE: func(command *cobra.Command, args []string) error {
			sources, redis, err := named.Sources(args)
			if err != nil {
				return err
			}
			s := snapshot.NewReader(thisBuild().Version, sources, redis).Take(command.Context())
			if err := printJSON(command.OutOrStdout(), s); err != nil {
				return err
			}
			if hasProblems(s) {
				return errFound
			}
			return nil
		},
	}
	named.Add(command)
	named.AddRedis(command)
	return command
}

// hasProblems reports whether something could not be read.
func hasProblems(s *snapshot.Snapshot) bool {
	for i := range s.Gateways {
		if len(s.Gateways[i].Problems) > 0 {
			return true
		}
	}
	return s.Redis != nil && len(s.Redis.Problems) > 0
}
