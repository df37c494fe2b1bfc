package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/warmgate/warmgate/internal/simulate/calibrate"
)

func newCalibrate() *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "calibrate PAGE...",
		Short: "Fit a simulated server to pages of a real one's metrics",
		Long: `Fit the times of a simulated server to pages of vLLM's metrics, and print them as flags of warmgate simulate.

A page has counts since its server began. Pages of several servers that are alike, under loads that differ, are best:
from one page alone, the times of prompts, tokens, steps and requests cannot be told apart. - is the standard input.`,
		Example: `  curl -s http://10.0.0.1:8000/metrics | warmgate calibrate -
  warmgate simulate --endpoints 4,8 $(warmgate calibrate quiet.prom busy.prom)`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return fit(command, output, args) },
	}
	outputFlag(command, &output, "flags", "json")
	return command
}

// fit fits to the pages that are named.
func fit(command *cobra.Command, output string, args []string) error {
	var pages []calibrate.Page
	for _, name := range args {
		text, err := readPage(name, command.InOrStdin())
		if err != nil {
			return err
		}
		p, err := calibrate.Parse(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		pages = append(pages, p)
	}
	r, err := calibrate.Fit(pages)
	if err != nil {
		return err
	}
	out, errs := command.OutOrStdout(), command.ErrOrStderr()
	if output == "json" {
		return json.NewEncoder(out).Encode(map[string]any{
			"prompt_ms": r.Times.PrefillOverheadMS, "prefill_ms": r.Times.PrefillTokenMS,
			"step_ms": r.Times.DecodeStepMS, "sequence_ms": r.Times.DecodeSeqMS, "cache_tokens": r.CacheTokens,
			"error": r.Error, "guessed": r.Guessed,
		})
	}
	t := &r.Times
	fmt.Fprintf(out, "--prompt-ms %.3g --prefill-ms %.3g --step-ms %.3g --sequence-ms %.3g", t.PrefillOverheadMS,
		t.PrefillTokenMS, t.DecodeStepMS, t.DecodeSeqMS)
	if r.CacheTokens > 0 {
		fmt.Fprintf(out, " --cache %d", r.CacheTokens)
	}
	fmt.Fprintln(out)
	fmt.Fprintf(errs, "The times differ from those of the pages by %.1f %%.\n", 100*r.Error)
	if r.Guessed {
		fmt.Fprintln(errs, "The pages are too few, or too alike, to tell times apart: what they do not say is guessed.")
	}
	return nil
}

// readPage reads a file, or the standard input.
func readPage(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}
