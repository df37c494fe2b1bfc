// Package inspect tests what a real gateway shows of itself: state and decisions of all its workers, and what would
// become of a request.
package inspect
