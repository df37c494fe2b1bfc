// Package vllmsimtest runs simulated servers in tests.
package vllmsimtest

import (
	"testing"

	"github.com/warmgate/warmgate/internal/vllmsim"
)

// StartT runs a server on a free port until the test ends.
func StartT(t testing.TB, cfg vllmsim.Config) *vllmsim.Server {
	t.Helper()
	s := vllmsim.New(cfg)
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
