package memstore

// Busy makes the store defer releases as it does under load, until the next Flush but one.
func (s *Store) Busy() { s.ledger.busy, s.ledger.reserved = true, busyAbove+1 }

// Scopes returns how many scopes the store has state of.
func (s *Store) Scopes() int { return len(s.ledger.scopes) }
