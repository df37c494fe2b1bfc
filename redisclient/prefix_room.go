package redisclient

import "github.com/warmgate/warmgate/lb/prefixindex"

// TableBlocks returns how many blocks of prompts a scope remembers in so many bytes of the server's memory.
func TableBlocks(bytes int) int { return prefixindex.Blocks(pages(bytes)) }
