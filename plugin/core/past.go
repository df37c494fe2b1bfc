package core

import (
	"encoding/binary"
	"errors"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// past is the configuration that was last taken, as shared memory has it: its text, and the good forms of its parts.
// VMs that come later than it, or are made anew, find there what is in force.
//
// The gateway tries a configuration in a VM of its own, once for each text, and then gives it to each thread's VM,
// where a refusal would cost the VM, and every request of the thread. So only the first VM may refuse, and every
// other takes what is in force then.
type past struct {
	turn  uint64 // how often it has been written
	raw   string
	forms config.Forms
}

// append writes a past down.
func (p past) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, p.turn)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(p.raw)))
	return p.forms.Append(append(dst, p.raw...))
}

// parsePast reads what append has written. There is nothing of what cannot be read.
func parsePast(val []byte) past {
	const head = 12
	if len(val) < head {
		return past{}
	}
	n := uint64(binary.LittleEndian.Uint32(val[8:]))
	if n > uint64(len(val)-head) {
		return past{}
	}
	return past{binary.LittleEndian.Uint64(val), string(val[head : head+n]), config.ParseForms(val[head+n:])}
}

// pastTries is how often a swap is tried.
const pastTries = 8

// taking is what becomes of a configuration.
type taking struct {
	set  *config.Set // nil: it is refused as a whole
	why  error       // what was refused, nil for nothing
	news bool        // no other VM has noted it before
	note uint64      // digest of the past that says so
}

// take reads a configuration over what shared memory has of those before it, and notes there what becomes of it. A VM
// that is behind the others, because a newer configuration is there already, leaves that as it is.
func (v *VM) take(name string, raw []byte, h config.Host) taking {
	kv, key := v.gw.KV(), keyConfigured+name
	for tries := 1; ; tries++ {
		val, cas, _ := kv.Get(key) // of what cannot be read, nothing is known
		before := parsePast(val)
		set, forms, why := config.Update(raw, h, before.forms)
		if set == nil {
			return taking{why: why, news: true}
		}
		seen, known := v.seen[name], string(raw) == before.raw
		if known {
			v.seen[name] = before.turn
		}
		if known || seen != unseen && seen != before.turn {
			return taking{set, why, false, xxhash.Sum64(val)}
		}
		val = past{before.turn + 1, string(raw), forms}.append(nil)
		err := kv.Set(key, val, cas)
		if err == nil {
			v.seen[name] = before.turn + 1
			return taking{set, why, true, xxhash.Sum64(val)}
		}
		if !errors.Is(err, lb.ErrMismatch) || tries == pastTries {
			// Not noted: what is refused as a whole later is taken for the first one, and requests pass, only natively.
			v.seen[name] = unseen
			return taking{set: set, why: why, news: true}
		}
	}
}

// followPast takes over the last good forms that are noted now. They may be others than when a configuration was taken:
// a worker that still has requests of an earlier push of the same text goes on with that, without a new start.
func (v *VM) followPast() {
	for _, p := range v.live {
		if p.text == nil {
			continue
		}
		val, _, err := v.gw.KV().Get(keyConfigured + p.name)
		before, note := parsePast(val), xxhash.Sum64(val)
		if err != nil || note == p.note || before.raw != string(p.text) {
			continue
		}
		if set, _, _ := config.Update(p.text, v.host, before.forms); set != nil {
			p.set, p.note = set, note
			v.follow()
			v.connect(set)
		}
	}
}

// unseen is in the place of the turn of a configuration that shared memory does not have.
const unseen = 0

// fallBack returns what is in force in the place of a configuration that is refused as a whole, nil if there was no
// good one. It returns false if the gateway can be left to go on with that itself.
func (v *VM) fallBack(name string, raw []byte, h config.Host) (*config.Set, bool) {
	kv := v.gw.KV()
	_, met := v.seen[name]
	val, _, err := kv.Get(keyConfigured + name)
	if err != nil {
		v.seen[name] = unseen
		v.markTaken(name, raw)
		return nil, true
	}
	if !met && !v.wasTaken(name, raw) {
		return nil, false
	}
	before := parsePast(val)
	set, _, _ := config.Update([]byte(before.raw), h, before.forms)
	return set, true
}

// maxTaken is how many bad configurations are remembered as taken.
const maxTaken = 64

// wasTaken says whether a bad configuration was taken because there was no good one yet. The gateway does not try
// it again.
func (v *VM) wasTaken(name string, raw []byte) bool {
	val, _, _ := v.gw.KV().Get(keyTaken + name)
	for id := xxhash.Sum64(raw); len(val) >= 8; val = val[8:] {
		if binary.LittleEndian.Uint64(val) == id {
			return true
		}
	}
	return false
}

func (v *VM) markTaken(name string, raw []byte) {
	if v.wasTaken(name, raw) {
		return
	}
	val, cas, _ := v.gw.KV().Get(keyTaken + name)
	val = binary.LittleEndian.AppendUint64(val, xxhash.Sum64(raw))
	_ = v.gw.KV().Set(keyTaken+name, val[max(0, len(val)-8*maxTaken):], cas) // should it fail, its VMs know it by seen
}

// refused counts what has been refused of a configuration that is in force, and says so in the log if it is news.
func (v *VM) refused(got taking) {
	list := got.set.Refusals()
	kept := 0
	text := "configuration refused in part, the rest of it is in force:"
	for i, r := range list {
		then := "left to native balancing"
		if r.Kept {
			kept++
			then = "its last good form stays in force"
		}
		if i < maxNamed {
			text += "\n  " + r.Part + ": " + then
		}
	}
	if more := len(list) - maxNamed; more > 0 {
		text += "\n  and " + strconv.Itoa(more) + " more"
	}
	v.stats.set(statBadRules, uint64(len(list)))
	v.stats.set(statKeptRules, uint64(kept))
	if len(list) == 0 {
		return
	}
	v.stats.count(statConfigBad, 1)
	if got.news {
		v.gw.Log(Error, text+"\n"+got.why.Error())
	}
}

// maxNamed is how many refused parts are named in the log.
const maxNamed = 50
