package redisclient

import "github.com/warmgate/warmgate/lb/prefixindex"

// IndexBlocks returns how many blocks of prompts a scope remembers in so many bytes of the server's memory.
func IndexBlocks(bytes int) int { return prefixindex.Blocks(pages(bytes)) }
