package memstore

import "errors"

// errDamaged is returned for a value that is not of its format.
var errDamaged = errors.New("memstore: damaged value in shared memory")

// errUnchanged is returned by the change of a swap that has changed nothing.
var errUnchanged = errors.New("memstore: unchanged")

// storeError is a failure of shared memory, with what the store was doing. Package fmt could wrap it as well, but would
// add 0.3 MB to each artifact.
type storeError struct {
	doing string
	err   error
}

// Error implements error.
func (e *storeError) Error() string { return "memstore: " + e.doing + ": " + e.err.Error() }

// Unwrap returns the error of shared memory.
func (e *storeError) Unwrap() error { return e.err }
