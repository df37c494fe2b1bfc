package prefixindex_test

import (
	"fmt"

	"github.com/warmgate/warmgate/lb/prefixindex"
)

// An index of 8 MiB has room for about 155,000 prefix blocks.
func ExampleBlocks() {
	const bytes = 8 << 20
	fmt.Println(prefixindex.Blocks(bytes / 2048))
	fmt.Println(prefixindex.Blocks(0) == prefixindex.Blocks(prefixindex.MinPages))
	// Output:
	// 154828
	// true
}
