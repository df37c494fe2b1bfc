package redisclient

import "github.com/warmgate/warmgate/lb"

// TableBlocks returns how many blocks of prompts a scope has room for in so many bytes of the server's memory.
func TableBlocks(scope string, bytes int) int {
	return lb.PageBlocks(pages(bytes, KeysOf(scope).Page))
}
