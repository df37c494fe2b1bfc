package lb

// storeError is a failure of shared memory, with the operation that failed. Wrapping it with package fmt would add
// 0.3 MB to each artifact.
type storeError struct {
	doing string
	err   error
}

// Error implements error.
func (e *storeError) Error() string { return "lb: " + e.doing + ": " + e.err.Error() }

// Unwrap returns the error of shared memory.
func (e *storeError) Unwrap() error { return e.err }
