package redisclient_test

import (
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/redisclient"
)

// A block takes 32 bytes in a page. Two fifths of the places are not counted on, and it takes some bytes to find the
// page.
func TestTableBlocks(t *testing.T) {
	const bytes = 64 << 20
	if got := redisclient.IndexBlocks(bytes); got >= bytes/32 || got < bytes/58 {
		t.Errorf("%d blocks", got)
	}
	if got, want := redisclient.IndexBlocks(0), lb.PageBlocks(0); got != want || got == 0 {
		t.Errorf("%d blocks without room, want %d", got, want)
	}
}
