// Command warmgate is for those who run gateways with Warmgate: it checks configurations before a gateway gets them,
// simulates which of them serves a load best, shows what gateways do, and serves simulated model servers.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	statusFound = 1 // problems were found
	statusFault = 2 // it could not be done: a wrong argument, a file that cannot be read
)

func main() { os.Exit(run(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})) }

// streams are where a command reads from and prints to.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// run does what the arguments say, and returns the exit status.
func run(args []string, s streams) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	addCompletion(root)
	begun := false
	root.PersistentPreRun = func(*cobra.Command, []string) { begun = true }
	command, err := root.ExecuteC()
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFound):
		return statusFound
	}
	fmt.Fprintf(s.err, "warmgate: %v\n", err)
	if !begun { // else it is no argument that the help would explain
		fmt.Fprintf(s.err, "See '%s --help'.\n", command.CommandPath())
	}
	return statusFault
}

// newRoot returns the command with all those below it. Each has a file here; most of what they do is in packages
// below internal.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "warmgate",
		Short: "Work with Warmgate, which balances the load of LLM servers inside gateways",
		Long: `Warmgate balances the load of LLM servers inside Envoy, Istio, Envoy Gateway and Higress. This program is for those
who run such gateways. It changes nothing.`,
		Version:       thisBuild().Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newValidate(), newExplain(), newSimulate(), newCalibrate(), newEngine(), newSnapshot(), newTop(),
		newUI(), newVersion(), newMan())
	return root
}

// addCompletion adds the command that prints completions, to a root that knows where to print. By itself it would
// answer a shell that it does not know with its help, as if that were one.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = cobra.NoArgs, func(command *cobra.Command, _ []string) error { return command.Help() }
		}
	}
}
