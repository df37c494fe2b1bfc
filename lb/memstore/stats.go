package memstore

// Stats counts what the store has to do besides its work.
type Stats struct {
	Retries   uint64 // compare-and-swaps that failed because another worker was faster, and were tried again
	Returned  uint64 // dead owners whose leases were returned
	Corrected uint64 // tables whose totals were not the sum of what their members held
}
