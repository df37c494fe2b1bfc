package memstore

import (
	"errors"
	"strconv"

	"github.com/warmgate/warmgate/lb"
)

// Keys in shared memory. Keys cannot be deleted, so their number is bounded: by the slots, by the owners that are alive
// at the same time, and by the pages of the prefix index. Released keys keep their names, also where the code has other
// names by now.
const (
	keyPrefix     = "warmgate/4/" // 4 is the version of the layout: values of another layout have other keys
	directoryKey  = keyPrefix + "roster"
	assignmentKey = keyPrefix + "taking"
	overridesKey  = keyPrefix + "limits" // format: lb/overrides.go
)

// tableSlots is how many scopes one gateway can count at the same time.
const tableSlots = 256

// tableKeys are the keys of all tables: each request needs one twice.
var tableKeys = func() (keys [tableSlots]string) {
	for slot := range keys {
		keys[slot] = keyPrefix + "table/" + strconv.Itoa(slot)
	}
	return keys
}()

func tableKey(slot int) string { return tableKeys[slot] }

func checkpointKey(slot, index int) string {
	return keyPrefix + "sheet/" + strconv.Itoa(slot) + "/" + strconv.Itoa(index)
}

// pageKey returns the key of a page of the prefix index in a part of shared memory, "" for that of the stores.
func pageKey(part string, number int) string {
	var b [64]byte
	key := append(append(append(b[:0], keyPrefix...), part...), "prefix/"...)
	return string(strconv.AppendInt(key, int64(number), 10))
}

// Prepare creates the keys of the embedded store in shared memory, unless they exist. It must run before any worker
// runs, because creating a key is not a compare-and-swap: see [lb.KV].
func Prepare(kv lb.KV) error {
	for _, key := range []string{directoryKey, assignmentKey, overridesKey} {
		switch _, _, err := kv.Get(key); {
		case errors.Is(err, lb.ErrNotFound):
			return prepare(kv)
		case err != nil:
			return &storeError{"preparing shared memory", err}
		}
	}
	return nil
}

// prepare creates each key that does not exist. The owner directory comes last: where it exists, all others do, but for
// keys of later versions.
func prepare(kv lb.KV) error {
	var failed error
	create := func(key string, val []byte) {
		if failed != nil {
			return
		}
		if _, _, failed = kv.Get(key); errors.Is(failed, lb.ErrNotFound) {
			failed = kv.Set(key, val, 0)
		}
	}
	create(assignmentKey, []byte{0})
	create(overridesKey, []byte{0})
	for slot := range tableSlots {
		create(tableKey(slot), []byte{0})
	}
	if create(directoryKey, newDirectory()); failed != nil {
		return &storeError{"preparing shared memory", failed}
	}
	return nil
}
