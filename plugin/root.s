// Package main declares a function without a body, which the compiler allows beside an assembly file only.
