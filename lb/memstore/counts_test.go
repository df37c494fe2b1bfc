package memstore

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
)

// Each swap that fails because another worker was faster is counted: while a slot is assigned, and later.
func TestRetriesAreCounted(t *testing.T) {
	kv, failing := memory(t), 2 // swaps of a table that are still to fail
	kv.SetErr = func(key string) error {
		if failing > 0 && strings.Contains(key, "/table/") {
			failing--
			return lb.ErrMismatch
		}
		return nil
	}
	s := New(kv, 1, storetest.TTL)
	if granted(t, s, time.Hour, 1, "a"); s.Stats.Retries != 2 || failing != 0 {
		t.Errorf("%d retries while a slot is assigned, want 2", s.Stats.Retries)
	}
	failing = 3
	if granted(t, s, time.Hour, 2, "a"); s.Stats.Retries != 5 {
		t.Errorf("%d retries after a reservation, want 5", s.Stats.Retries)
	}
}

// Reservations make a worker busy, and so do requests that another store has placed.
func TestReservationsMakeBusy(t *testing.T) {
	for name, reserve := range map[string]func(s *Store, id lb.LeaseID) error{
		"reserved": func(s *Store, id lb.LeaseID) error { granted(t, s, time.Hour, id, "a"); return nil },
		"counted":  func(s *Store, id lb.LeaseID) error { return s.CountAt(time.Hour, id, "a", "10.0.0.1:80", 1) },
	} {
		s := New(memory(t), 1, storetest.TTL)
		for id := range lb.LeaseID(busyAbove + 1) {
			if err := reserve(s, id); err != nil {
				t.Fatal(err)
			}
		}
		if s.Flush(time.Hour); !s.ledger.busy {
			t.Errorf("%s: not busy after %d requests", name, busyAbove+1)
		}
	}
}

// A VM that has reserved nothing is no owner, however many heartbeats it sends.
func TestHeartbeatsMakeNoOwner(t *testing.T) {
	s := New(memory(t), 1, storetest.TTL)
	for i := range 3 {
		if err := s.Heartbeat(time.Hour + time.Duration(i)*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Owners(time.Hour + 3*time.Second); err != nil || n != 0 {
		t.Errorf("%d owners, %v", n, err)
	}
}

// A step between rows that do not exist changes nothing.
func TestStepOfMissingRow(t *testing.T) {
	rows := make([]byte, 2*rowSize)
	addAt(rows, 1, lb.Load{Requests: 3, Tokens: 30})
	before := slices.Clone(rows)
	step{from: 2, to: 2, fromTokens: 10, toTokens: 10}.apply(rows, 2)
	if !slices.Equal(rows, before) {
		t.Errorf("rows %v, before %v", rows, before)
	}
}

// An assignment of a slot that does not exist is ignored.
func TestAssignmentOfMissingSlot(t *testing.T) {
	kv := memory(t)
	s := New(kv, 1, storetest.TTL)
	val := wire.Writer(nil).Uint16(tableSlots).Uint16(0).Raw("a")
	if err := kv.Set(assignmentKey, val, 0); err != nil {
		t.Fatal(err)
	}
	_, version, err := kv.Get(assignmentKey)
	if err == nil {
		err = s.tables.finish(val, version)
	}
	if err != nil {
		t.Error(err)
	}
	if _, _, err := kv.Get(keyPrefix + "table/" + strconv.Itoa(tableSlots)); !errors.Is(err, lb.ErrNotFound) {
		t.Errorf("the table of a slot that does not exist: %v", err)
	}
}
