package core

import (
	"encoding/binary"
	"errors"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// lastGood is the configuration that was last taken, as shared memory has it: its text, and the good forms of its parts.
// VMs that come later than it, or are made anew, find there what is in force.
//
// The gateway tries a configuration in a VM of its own, once for each text, and then gives it to each thread's VM,
// where a refusal would cost the VM, and every request of the thread. So only the first VM may refuse, and every
// other takes what is in force then.
type lastGood struct {
	turn  uint64 // how often it has been written
	text  string
	forms config.Forms
}

// append writes a past down.
func (p lastGood) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, p.turn)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(p.text)))
	return p.forms.Append(append(dst, p.text...))
}

// parseLastGood reads what append has written. There is nothing of what cannot be read.
func parseLastGood(val []byte) lastGood {
	const head = 12
	if len(val) < head {
		return lastGood{}
	}
	n := uint64(binary.LittleEndian.Uint32(val[8:]))
	if n > uint64(len(val)-head) {
		return lastGood{}
	}
	return lastGood{binary.LittleEndian.Uint64(val), string(val[head : head+n]), config.ParseForms(val[head+n:])}
}

// maxSwaps is how often a swap is tried.
const maxSwaps = 8

// acceptance is what becomes of a configuration.
type acceptance struct {
	set    *config.Set // nil: it is refused as a whole
	err    error       // what was refused, nil for nothing
	first  bool        // no other VM has noted it before
	digest uint64      // digest of the past that says so
}

// accept reads a configuration over what shared memory has of those before it, and notes there what becomes of it. A VM
// that is behind the others, because a newer configuration is there already, leaves that as it is.
func (v *VM) accept(name string, raw []byte, h config.Host) acceptance {
	kv, key := v.gw.KV(), keyLastGood+name
	for tries := 1; ; tries++ {
		val, cas, _ := kv.Get(key) // of what cannot be read, nothing is known
		before := parseLastGood(val)
		set, forms, why := config.Update(raw, h, before.forms)
		if set == nil {
			return acceptance{err: why, first: true}
		}
		seen, known := v.turns[name], string(raw) == before.text
		if known {
			v.turns[name] = before.turn
		}
		if known || seen != unknownTurn && seen != before.turn {
			return acceptance{set, why, false, xxhash.Sum64(val)}
		}
		val = lastGood{before.turn + 1, string(raw), forms}.append(nil)
		err := kv.Set(key, val, cas)
		if err == nil {
			v.turns[name] = before.turn + 1
			return acceptance{set, why, true, xxhash.Sum64(val)}
		}
		if !errors.Is(err, lb.ErrMismatch) || tries == maxSwaps {
			// Not noted: what is refused as a whole later is taken for the first one, and requests pass, only natively.
			v.turns[name] = unknownTurn
			return acceptance{set: set, err: why, first: true}
		}
	}
}

// refreshLastGood takes over the last good forms that are noted now. They may be others than when a configuration was taken:
// a worker that still has requests of an earlier push of the same text goes on with that, without a new start.
func (v *VM) refreshLastGood() {
	for _, p := range v.inForce {
		if p.refusedText == nil {
			continue
		}
		val, _, err := v.gw.KV().Get(keyLastGood + p.name)
		before, note := parseLastGood(val), xxhash.Sum64(val)
		if err != nil || note == p.lastGoodDigest || before.text != string(p.refusedText) {
			continue
		}
		if set, _, _ := config.Update(p.refusedText, v.kind, before.forms); set != nil {
			p.set, p.lastGoodDigest = set, note
			v.followAdminSource()
			v.connect(set)
		}
	}
}

// unknownTurn is in the place of the turn of a configuration that shared memory does not have.
const unknownTurn = 0

// lastGoodSet returns what is in force in the place of a configuration that is refused as a whole, nil if there was no
// good one. It returns false if the gateway can be left to go on with that itself.
func (v *VM) lastGoodSet(name string, raw []byte, h config.Host) (*config.Set, bool) {
	kv := v.gw.KV()
	_, met := v.turns[name]
	val, _, err := kv.Get(keyLastGood + name)
	if err != nil {
		v.turns[name] = unknownTurn
		v.tolerate(name, raw)
		return nil, true
	}
	if !met && !v.tolerated(name, raw) {
		return nil, false
	}
	before := parseLastGood(val)
	set, _, _ := config.Update([]byte(before.text), h, before.forms)
	return set, true
}

// maxTolerated is how many bad configurations are remembered as taken.
const maxTolerated = 64

// tolerated says whether a bad configuration was taken because there was no good one yet. The gateway does not try
// it again.
func (v *VM) tolerated(name string, raw []byte) bool {
	val, _, _ := v.gw.KV().Get(keyTolerated + name)
	for id := xxhash.Sum64(raw); len(val) >= 8; val = val[8:] {
		if binary.LittleEndian.Uint64(val) == id {
			return true
		}
	}
	return false
}

func (v *VM) tolerate(name string, raw []byte) {
	if v.tolerated(name, raw) {
		return
	}
	val, cas, _ := v.gw.KV().Get(keyTolerated + name)
	val = binary.LittleEndian.AppendUint64(val, xxhash.Sum64(raw))
	_ = v.gw.KV().Set(keyTolerated+name, val[max(0, len(val)-8*maxTolerated):], cas) // should it fail, its VMs know it by seen
}

// logRefusals counts what has been refused of a configuration that is in force, and says so in the log if it is news.
func (v *VM) logRefusals(got acceptance) {
	list := got.set.Refusals()
	kept := 0
	text := "configuration refused in part, the rest of it is in force:"
	for i, r := range list {
		then := "left to native balancing"
		if r.Kept {
			kept++
			then = "its last good form stays in force"
		}
		if i < maxListed {
			text += "\n  " + r.Part + ": " + then
		}
	}
	if more := len(list) - maxListed; more > 0 {
		text += "\n  and " + strconv.Itoa(more) + " more"
	}
	v.stats.set(statBadRules, uint64(len(list)))
	v.stats.set(statKeptRules, uint64(kept))
	if len(list) == 0 {
		return
	}
	v.stats.count(statConfigBad, 1)
	if got.first {
		v.gw.Log(Error, text+"\n"+got.err.Error())
	}
}

// maxListed is how many refused parts are named in the log.
const maxListed = 50
