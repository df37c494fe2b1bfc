package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/lint"
	"github.com/warmgate/warmgate/cmd/warmgate/internal/report"
	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
)

// validation is what the flags of validate say.
type validation struct {
	output, gateway    string
	strict, skipOthers bool
}

func newValidate() *cobra.Command {
	v := new(validation)
	command := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check configurations of the plugin, in any kind of file",
		Long: `Check configurations of the plugin: what the plugin would refuse or warn of, and traps beside that.

Files are YAML or JSON, with one or several documents: the plugin's configuration itself, Higress's WasmPlugin, Istio's
EnvoyFilter and TrafficExtension, Envoy Gateway's EnvoyExtensionPolicy and EnvoyPatchPolicy, values of the Helm chart,
and Envoy's own files with the plugin anywhere in them. A folder stands for all files in it that mention the plugin,
and - for the standard input.

The exit status is 0 if there are no problems, 1 if there are, and 2 if something could not be read.`,
		Example: `  warmgate validate warmgate.yaml
  warmgate validate --strict envoy-config deploy
  helm template warmgate deploy/helm -f values.yaml | warmgate validate -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return v.run(command, args) },
	}
	var formats []string
	for _, f := range report.Formats {
		formats = append(formats, f.Name)
	}
	outputFlag(command, &v.output, formats...)
	flags := command.Flags()
	flags.BoolVar(&v.strict, "strict", false, "exit with 1 for warnings, too")
	flags.BoolVar(&v.skipOthers, "skip-others", false, "pass over files that do not mention the plugin, as in folders")
	choiceFlag(command, &v.gateway, "gateway", "",
		"what a configuration by itself is for: envoy, higress, or auto to go by its keys",
		string(lint.Auto), string(lint.Envoy), string(lint.Higress))
	return command
}

// run checks the files. A file that cannot be read is named at the end, when all others have been checked.
func (v *validation) run(command *cobra.Command, args []string) error {
	var (
		r      report.Report
		faults []error
		done   = map[string]bool{}
	)
	for _, arg := range args {
		if done[filepath.Clean(arg)] {
			continue
		}
		done[filepath.Clean(arg)] = true
		before := r.Configurations + len(r.Findings)
		err := source.Read(arg, command.InOrStdin(), func(f *source.File, named bool) {
			if !v.skipOthers || f.Mentioned() {
				r.Add(f, lint.File(f, lint.Gateway(v.gateway), named && !v.skipOthers))
			}
		})
		if before == r.Configurations+len(r.Findings) && isFolder(arg) {
			r.AddEmpty(arg)
		}
		if err != nil {
			faults = append(faults, err)
			r.Unread = append(r.Unread, strings.Split(err.Error(), "\n")...)
		}
	}
	out := command.OutOrStdout()
	options := report.Options{Color: inColor(out), Version: thisBuild().Version}
	if err := r.Print(out, v.output, options); err != nil {
		return err
	}
	if v.output == report.Formats[0].Name {
		fmt.Fprintln(command.ErrOrStderr(), r.Summary())
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	if r.Errors > 0 || v.strict && r.Warnings > 0 {
		return errFound
	}
	return nil
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
