package lb

// Busy makes the store defer releases as it does under load.
func (s *MemStore) Busy() { s.busy, s.reserved = true, busyAbove+1 }
