package memstore

// storeError is a failure of shared memory, with what the store was doing. Package fmt would wrap it as well, and add 0.3 MB
// to each artifact.
type storeError struct {
	doing string
	err   error
}

// Error implements error.
func (e *storeError) Error() string { return "lb: " + e.doing + ": " + e.err.Error() }

// Unwrap returns what shared memory said.
func (e *storeError) Unwrap() error { return e.err }
