package redisclient

import "github.com/warmgate/warmgate/lb"

// TableBlocks returns how many blocks of prompts a scope remembers in so many bytes of the server's memory.
func TableBlocks(bytes int) int { return lb.PageBlocks(pages(bytes)) }
