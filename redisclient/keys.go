package redisclient

import (
	"encoding/binary"
	"strings"

	"github.com/warmgate/warmgate/lb"
)

// KeyPrefix begins every key. The 1 is the version of what lies there: a plugin of another version has its own counts
// and cannot misread these.
const KeyPrefix = "warmgate:1:"

// Keys are the names of a scope's keys. They share a hash tag, so that a Redis Cluster keeps them on one node.
type Keys struct {
	Table  string // totals
	Rows   string // where in the table an endpoint is
	Listed string // when an endpoint was last on a list
	Owners string // who counts
	Own    string // and an owner's name behind it: the owner's leases
	Turn   string // who returns leases of others
	View   string // and a digest behind it: a list of candidates
	Part   string // and the digest and a number behind it: a part of a long list
	Pages  string // and how many they are in base 36 behind it: who has which blocks of prompts in its cache
}

// KeysOf returns the keys of a scope.
func KeysOf(scope string) Keys {
	// A brace in the name would end the hash tag early.
	p := KeyPrefix + "{" + strings.ReplaceAll(strings.ReplaceAll(scope, "{", "("), "}", ")") + "}:"
	return Keys{
		Table: p + "table", Rows: p + "rows", Listed: p + "listed", Owners: p + "owners", Own: p + "own:", Turn: p + "turn",
		View: p + "view:", Part: p + "part:", Pages: p + "pages:",
	}
}

// The layout of a table, as lua/shared.lua describes it.
const (
	tableHead = 16
	tableRow  = 9
)

// Loads reads the totals from a scope's table: rows is the hash beside it. Rows that are not in the table are left out.
func Loads(table []byte, rows map[string]int) map[string]lb.Load {
	out := make(map[string]lb.Load, len(rows))
	for addr, row := range rows {
		at := tableHead + row*tableRow
		if row < 0 || at+tableRow > len(table) {
			continue
		}
		out[addr] = loadAt(table[at:])
	}
	return out
}

// Lease reads one entry of an owner's hash: ok is false for a mark or a tombstone.
func Lease(field string, value []byte) (id lb.LeaseID, row int, tokens int64, ok bool) {
	const least, most = 7, 8 // the last byte says how many blocks were cached, where that was asked
	if len(field) != 8 || len(value) < least || len(value) > most {
		return 0, 0, 0, false
	}
	var n [8]byte
	copy(n[:4], value[2:])
	return lb.LeaseID(binary.LittleEndian.Uint64([]byte(field))), int(binary.LittleEndian.Uint16(value)),
		int64(binary.LittleEndian.Uint64(n[:])), true
}
