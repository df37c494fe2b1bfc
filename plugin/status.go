package main

import "strconv"

// status is what a host call returns.
type status uint32

const (
	statusOK          status = 0
	statusNone        status = 1 // there is no such thing, or not now
	statusBadArgument status = 2 // for a call to a cluster: the gateway has none of that name, or not yet
	statusCasMismatch status = 8
)

// Error implements error.
func (s status) Error() string {
	text := "the gateway answered a host call with status " + strconv.Itoa(int(s))
	if s == statusBadArgument {
		text += ": it has no cluster of that name, or not yet"
	}
	return text
}

// err returns nil for statusOK, else the status.
func (s status) err() error {
	if s == statusOK {
		return nil
	}
	return s
}
