package redisclient

import (
	"bytes"
	"slices"
	"time"
)

const (
	// codeManyIdleRows is what candidates.lua returns when many rows of the table may be unused.
	codeManyIdleRows = 2
	// minFreed is how many rows are worth freeing: all lists of candidates have to be sent again afterwards. maxFreed
	// is how many are collected before they are freed.
	minFreed, maxFreed = 64, 512
)

// freeRows searches for the rows of endpoints that are idle and were not on a list for a while, one command after the
// other, and frees them, so that other endpoints can have them. idle are the addresses found so far. If a command
// fails, the next search begins again.
func (ls *candidateLists) freeRows(now time.Duration, cursor []byte, idle []string, steps int) {
	ls.sendFreeRows(now, cursor, nil, func(now time.Duration, v Value, err error) {
		if err != nil || v.Kind != Array || len(v.Items) == 0 || len(v.Items[0].Str) > maxCursor {
			ls.freeingRows = false
			return
		}
		for _, item := range v.Items[1:] {
			idle = append(idle, string(item.Str))
		}
		more := string(v.Items[0].Str) != "0" && steps > 1
		if !more || len(idle) >= maxFreed {
			if len(idle) >= minFreed {
				for part := range slices.Chunk(idle, endpointsPerCommand) {
					ls.sendFreeRows(now, nil, part, func(time.Duration, Value, error) {})
				}
			}
			idle = nil
		}
		if ls.freeingRows = more; more {
			ls.freeRows(now, bytes.Clone(v.Items[0].Str), idle, steps-1)
		}
	})
}

// sendFreeRows frees the rows of the given endpoints, and searches for others from the cursor on, unless that is empty.
func (ls *candidateLists) sendFreeRows(
	now time.Duration, cursor []byte, addrs []string, done func(time.Duration, Value, error),
) {
	b := scriptFreeRows.command(nil, 3, 2+len(addrs))
	b = appendArg(b, ls.at.keys.Table)
	b = appendArg(b, ls.at.keys.Rows)
	b = appendArg(b, ls.at.keys.Listed)
	b = appendArg(b, cursor)
	b = appendInt(b, int64(rowIdleTime/time.Second))
	for _, addr := range addrs {
		b = appendArg(b, addr)
	}
	ls.at.sendBackground(now, scriptFreeRows, b, done)
}
