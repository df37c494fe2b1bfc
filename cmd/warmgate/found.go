package main

import "errors"

// errFound ends a command that has printed what it found.
var errFound = errors.New("problems were found")
