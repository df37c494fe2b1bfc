package main

import "strconv"

// status is what a host call returns.
type status uint32

const (
	statusOK          status = 0
	statusNone        status = 1 // there is no such thing, or not now
	statusBadArgument status = 2
	statusCasMismatch status = 8
)

// Error implements error: see err.
func (s status) Error() string {
	return "the gateway answered a host call with status " + strconv.Itoa(int(s))
}

// err returns nil for statusOK, else the status.
func (s status) err() error {
	if s == statusOK {
		return nil
	}
	return s
}
