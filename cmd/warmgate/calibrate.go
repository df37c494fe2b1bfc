package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/warmgate/warmgate/internal/accesslog"
	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/internal/simulate/calibrate"
)

func newCalibrate() *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "calibrate FILE...",
		Short: "Fit a simulated server to an access log, or to pages of a real one's metrics",
		Long: `Fit the times of a simulated server, and the size of its KV cache, to a gateway's access log with the plugin's line, or
to pages of the metrics of vLLM or llama.cpp, and print them as flags of warmgate simulate. - is the standard input.

The log has to be that of all gateways in front of the servers, which have to be alike, with a policy that reads the
usage in answers, such as prefix_cache. Its answers have to be streams.

A page has counts since its server began. Pages of several servers that are alike, under loads that differ, are best:
from one page alone, the times of prompts, tokens, steps and requests cannot be told apart.`,
		Example: `  warmgate calibrate access.log.gz
  curl -s http://10.0.0.1:8000/metrics | warmgate calibrate -
  warmgate simulate --endpoints 4,8 $(warmgate calibrate quiet.prom busy.prom)`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return fit(command, output, args) },
	}
	outputFlag(command, &output, "flags", "json")
	return command
}

// fit fits to the files that are named, and prints what has come of it.
func fit(command *cobra.Command, output string, args []string) error {
	out, errs := command.OutOrStdout(), command.ErrOrStderr()
	r, err := fitFiles(args, command.InOrStdin())
	if err != nil {
		return err
	}
	if output == "json" {
		return json.NewEncoder(out).Encode(map[string]any{
			"prompt_ms": r.Times.PrefillOverheadMS, "prefill_ms": r.Times.PrefillTokenMS,
			"step_ms": r.Times.DecodeStepMS, "sequence_ms": r.Times.DecodeSeqMS, "cache_tokens": r.CacheTokens,
			"error": r.Error, "rest_error": r.RestError, "guessed": r.Guessed, "answers": r.Answers,
		})
	}
	t := &r.Times
	fmt.Fprintf(out, "--prompt-ms %.3g --prefill-ms %.3g --step-ms %.3g --sequence-ms %.3g", t.PrefillOverheadMS,
		t.PrefillTokenMS, t.DecodeStepMS, t.DecodeSeqMS)
	if r.CacheTokens > 0 {
		fmt.Fprintf(out, " --cache %d", r.CacheTokens)
	}
	fmt.Fprintln(out)
	what := "pages"
	if r.Answers > 0 {
		what = "log"
		fmt.Fprintf(errs, "Of %d answers, a fifth was left out of the fit. Half of these are less than %.1f %% off in "+
			"the time to the first output, and %.1f %% in the rest.\n", r.Answers, 100*r.Error, 100*r.RestError)
		if r.CacheTokens == 0 {
			fmt.Fprintln(errs, "How much the KV cache holds does not show: nothing seems to have been evicted.")
		}
	} else {
		fmt.Fprintf(errs, "The times differ from those of the pages by %.1f %%.\n", 100*r.Error)
	}
	if r.Guessed {
		fmt.Fprintf(errs, "The %s say too little to tell the times apart: what they do not say is guessed.\n", what)
	}
	return nil
}

// fitFiles fits to pages, or to access logs, which are put together.
func fitFiles(names []string, stdin io.Reader) (calibrate.Result, error) {
	var pages []calibrate.Page
	var lines []accesslog.Request
	for _, name := range names {
		from, closeFile, err := openPlain(name, stdin)
		if err != nil {
			return calibrate.Result{}, err
		}
		defer func() { _ = closeFile() }() // all of it was read
		if isPage(from) {
			p, err := readPage(from)
			if err != nil {
				return calibrate.Result{}, fmt.Errorf("%s: %w", name, err)
			}
			pages = append(pages, p)
			continue
		}
		log, err := accesslog.Parse(from)
		if err != nil {
			return calibrate.Result{}, fmt.Errorf("%s: %w", name, err)
		}
		lines = append(lines, log.Requests...)
	}
	switch {
	case len(lines) == 0:
		return calibrate.Fit(pages)
	case len(pages) > 0:
		return calibrate.Result{}, errors.New("want access logs, or pages of metrics, not both")
	}
	slices.SortStableFunc(lines, func(a, b accesslog.Request) int { return a.Start.Compare(b.Start) })
	return calibrate.FitLog(simulate.FromLog(lines))
}

// isPage reports whether the content is a page of metrics: it begins with a comment or a name. It may be empty.
func isPage(from *bufio.Reader) bool {
	begin, _ := from.Peek(peeked) // what is shorter comes with an error
	begin = bytes.TrimSpace(begin)
	return len(begin) == 0 || begin[0] == '#' || begin[0] >= 'a' && begin[0] <= 'z'
}

func readPage(from io.Reader) (calibrate.Page, error) {
	text, err := io.ReadAll(from)
	if err != nil {
		return calibrate.Page{}, err
	}
	return calibrate.Parse(string(text))
}
