package memstore

import (
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// A sheet is what one owner holds in one table, row by row, up to a step. Only its owner writes it, so it needs no swap:
//
//	owner u64, seq u32, rows u32, then the rows as in a table
type sheet []byte

const sheetHeader = 16

func newSheet(owner uint64) sheet {
	s := make(sheet, sheetHeader)
	wire.PutUint64(s, 0, owner)
	return s
}

// check says whether s is a whole sheet of the owner.
func (s sheet) check(owner uint64) bool {
	return len(s) >= sheetHeader && wire.Uint64(s, 0) == owner && len(s) == sheetHeader+s.rows()*rowSize
}

func (s sheet) seq() uint32 { return wire.Uint32(s, 8) }
func (s sheet) rows() int   { return int(wire.Uint32(s, 12)) }

func (s sheet) load(row int) lb.Load { return loadAt(s[sheetHeader:], row) }

// holds says whether anything is counted on the sheet.
func (s sheet) holds() bool {
	for i := range s.rows() {
		if s.load(i) != (lb.Load{}) {
			return true
		}
	}
	return false
}

// grow makes room for n rows.
func (s sheet) grow(n int) sheet {
	if n <= s.rows() {
		return s
	}
	s = append(s, make([]byte, (n-s.rows())*rowSize)...)
	wire.PutUint32(s, 12, uint32(n))
	return s
}

// record counts a step and gives the sheet the step's sequence number.
func (s sheet) record(seq uint32, st step) {
	st.apply(s[sheetHeader:], s.rows())
	wire.PutUint32(s, 8, seq)
}

// addTo counts everything on the sheet in the table, once (sign 1) or back (sign -1).
func (s sheet) addTo(t table, sign int64) {
	for i := range min(s.rows(), t.rows()) {
		if l := s.load(i); l != (lb.Load{}) {
			t.add(i, lb.Load{Requests: sign * l.Requests, Tokens: sign * l.Tokens})
		}
	}
}
