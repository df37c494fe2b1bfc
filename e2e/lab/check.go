// Package lab plays experiments on running gateways, one scene after another. It has the flags that its programs share,
// keeps streams open and sends requests during a scene, has package audit compare all counts after it, and ends with
// one line of JSON and the exit status: 1 if anything was violated.
//
// A scene is written like a test: what is wrong ends it. See [Check].
package lab

import (
	"errors"
	"fmt"

	"github.com/warmgate/warmgate/e2e/wait"
)

// ended is what a panic of Check has.
type ended struct{ error }

// Check ends the scene with the errors, unless all of them are nil, as Fatal ends a test. As there, only the goroutine
// that plays the scene may call it, and what is called by All.
func Check(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		panic(ended{err})
	}
}

// FailIf ends the scene if something is so.
func FailIf(so bool, format string, args ...any) {
	if so {
		Check(fmt.Errorf(format, args...))
	}
}

// Must returns a value that came without an error; an error ends the scene.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}

// Try returns the error with which something was ended by Check, nil if it was not.
func Try(do func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case ended:
			err = r.error
		default:
			panic(r)
		}
	}()
	do()
	return nil
}

// Each does one thing after another, whatever ends them, and then ends the scene with what has ended any.
func Each(steps ...func()) {
	var errs []error
	for _, step := range steps {
		errs = append(errs, Try(step))
	}
	Check(errs...)
}

// All calls do with the numbers below n, each in a goroutine of its own, waits for all and ends the scene if one of
// them was ended.
func All(n int, do func(i int)) {
	Check(wait.All(n, func(i int) error { return Try(func() { do(i) }) }))
}

// About adds a name to the error with which something is ended.
func About(name string, do func()) {
	if err := Try(do); err != nil {
		Check(fmt.Errorf("%s: %w", name, err))
	}
}
