package main

import (
	"io"
	"os"
)

// inColor reports whether what is printed is read on a terminal that is not told to be without color; see
// https://no-color.org.
func inColor(out io.Writer) bool { return os.Getenv("NO_COLOR") == "" && isTerminal(out) }

// isTerminal reports whether what is printed is read on a terminal that knows more than lines.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
