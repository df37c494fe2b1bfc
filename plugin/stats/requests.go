package stats

import "github.com/warmgate/warmgate/plugin/measured"

// Measured counts a request that is over.
func (s *Registry) Measured(*measured.Request) {}
