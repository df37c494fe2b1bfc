package lb

// MinPages is how many pages a store has at least, however small the room.
const MinPages = 16

// PageBlocks returns how many blocks of prompts so many pages remember, in any store: three fifths of the places. Of so
// many blocks 0.99 are found again, although all pages are full of others that are older; of two thirds it were 0.985.
func PageBlocks(pages int) int { return max(pages, MinPages) * mostEntries * 3 / 5 }

// TableBlocks returns how many blocks of prompts the embedded store remembers in so many bytes.
func TableBlocks(room int) int { return PageBlocks(room / pageMost) }
