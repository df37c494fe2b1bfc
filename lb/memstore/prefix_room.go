package memstore

import "github.com/warmgate/warmgate/lb/prefixindex"

// TableBlocks returns how many prefix blocks the index of the embedded store holds in the given number of bytes.
func TableBlocks(bytes int) int { return prefixindex.Blocks(bytes / pageMost) }
