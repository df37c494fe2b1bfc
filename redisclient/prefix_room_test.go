package redisclient_test

import (
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/redisclient"
)

// A block takes 32 bytes in a page, and at most half as much to have the page found; longer names of scopes take more.
func TestTableBlocks(t *testing.T) {
	const bytes = 64 << 20
	short, long := redisclient.TableBlocks("llm", bytes), redisclient.TableBlocks("outbound|8000||model-servers.static", bytes)
	if short >= bytes/32 || short < bytes/48 || long >= short || long < bytes/48 {
		t.Errorf("%d and %d blocks", short, long)
	}
	if got, want := redisclient.TableBlocks("llm", 0), lb.PageBlocks(0); got != want || got == 0 {
		t.Errorf("%d blocks without room, want %d", got, want)
	}
}
