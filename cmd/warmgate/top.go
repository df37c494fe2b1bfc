package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/gateways"
	"github.com/warmgate/warmgate/cmd/warmgate/internal/screen"
	"github.com/warmgate/warmgate/internal/live"
	"github.com/warmgate/warmgate/internal/snapshot"
)

// top is what the flags of top say.
type top struct {
	named    gateways.Flags
	output   string
	once     bool
	interval time.Duration
}

const leastInterval = 200 * time.Millisecond

func newTop() *cobra.Command {
	t := new(top)
	command := &cobra.Command{
		Use:   "top [ADDRESS...]",
		Short: "Show in the terminal what gateways do",
		Long: `Show in the terminal what gateways do, once a second: endpoints with what is in flight, runs and waits there, their KV
caches and health, queues, how requests are decided, times to the first token, and other regions. Several gateways are
shown together or one by one. The key ? explains the others.

` + gateways.Help + `

With --once it prints one frame, with rates of the interval, and the exit status is 1 if a gateway could not be read.`,
		Example: `  warmgate top http://127.0.0.1:9901
  warmgate top --config gateways.yaml
  warmgate top --once -o json admin.sock`,
		RunE: func(command *cobra.Command, args []string) error { return t.run(command, args) },
	}
	t.named.Add(command)
	outputFlag(command, &t.output, "table", "json")
	flags := command.Flags()
	flags.BoolVar(&t.once, "once", false, "print one frame, in the format of -o")
	flags.DurationVar(&t.interval, "interval", time.Second, "`time` between two frames")
	return command
}

func (t *top) run(command *cobra.Command, args []string) error {
	if t.interval < leastInterval {
		return fmt.Errorf("--interval is below %s", leastInterval)
	}
	if !t.once && t.output != "table" {
		return errors.New("-o is for --once")
	}
	sources, _, err := t.named.Sources(args)
	if err != nil {
		return err
	}
	reader := snapshot.NewReader(thisBuild().Version, sources, nil)
	if t.once {
		return t.print(command, reader)
	}
	if !isTerminal(command.OutOrStdout()) {
		return errors.New("the output is no terminal: want --once")
	}
	ctx, cancel := context.WithCancel(command.Context())
	defer cancel()
	program := tea.NewProgram(screen.New(screen.StyleOf(os.Getenv)), tea.WithContext(ctx))
	go live.Poll(ctx, t.interval, reader.Watch, func(f live.Frame) { program.Send(f) })
	_, err = program.Run()
	return err
}

// print prints one frame. Rates are of the interval before it.
func (t *top) print(command *cobra.Command, reader *snapshot.Reader) error {
	ctx, cancel := context.WithCancel(command.Context())
	defer cancel()
	var frames []live.Frame
	live.Poll(ctx, t.interval, reader.Watch, func(f live.Frame) {
		if frames = append(frames, f); len(frames) == 2 {
			cancel()
		}
	})
	if len(frames) < 2 {
		return ctx.Err()
	}
	f := &frames[1]
	// Of the first frame everything is new, so its decisions are the latest ones before the interval.
	for i := range f.Gateways {
		f.Gateways[i].Decisions = append(frames[0].Gateways[i].Decisions, f.Gateways[i].Decisions...)
	}
	out := command.OutOrStdout()
	if t.output == "json" {
		if err := printJSON(out, f); err != nil {
			return err
		}
	} else {
		style := screen.StyleOf(os.Getenv)
		style.Color = inColor(out)
		const width = 160
		if _, err := fmt.Fprint(out, screen.Table(f, style, width)); err != nil {
			return err
		}
	}
	for i := range f.Gateways {
		if !f.Gateways[i].Up {
			return errFound
		}
	}
	return nil
}
