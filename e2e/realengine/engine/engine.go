// Package engine has the Python side of real engines: for each the packages, where this tree pins them, what makes a
// model, and the server.
package engine

import "embed"

// Scripts are the files.
//
//go:embed *.py *.txt
var Scripts embed.FS
