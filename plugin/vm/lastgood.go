package vm

import (
	"errors"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
)

// lastGood is the part of a VM that keeps the last good configuration of each plugin in shared memory: its text, and
// the last good forms of its parts. VMs that start later find there what is in force.
//
// The gateway tries a configuration in a VM of its own, once for each text, and then gives it to each thread's VM,
// where a refusal would cost the VM, and every request of the thread. So only the first VM may refuse, and every
// other takes what is in force then.
type lastGood struct {
	*host.Env
	turns map[string]uint64 // turn of the record that this VM last agreed with, by name of the plugin
}

// unknownTurn is in the place of the turn of a configuration that shared memory does not have.
const unknownTurn = 0

// lastGoodRecord is a value in shared memory.
type lastGoodRecord struct {
	turn  uint64 // how often it has been written
	text  string
	forms config.Forms
}

// append writes the record: the turn u64, the length of the text u32, the text, the forms.
func (r lastGoodRecord) append(dst []byte) []byte {
	return r.forms.Append(wire.Writer(dst).Uint64(r.turn).Uint32(uint32(len(r.text))).Raw(r.text))
}

// parseLastGood reads what append has written. What cannot be read is empty.
func parseLastGood(val []byte) lastGoodRecord {
	r := wire.NewReader(val)
	turn, text := r.Uint64(), r.Take(int(r.Uint32()))
	if !r.OK() {
		return lastGoodRecord{}
	}
	return lastGoodRecord{turn, string(text), config.ParseForms(r.Rest())}
}

// maxSwaps is how often a swap is tried.
const maxSwaps = 8

// acceptance is what becomes of a configuration.
type acceptance struct {
	set    *config.Set // nil: it is refused as a whole
	err    error       // what was refused, nil for nothing
	first  bool        // no other VM has recorded it before
	digest uint64      // of the record that contains it
}

// accept reads a configuration over the last good one in shared memory, and records it there. A VM that is behind the
// others, because a newer configuration is there already, leaves that as it is.
func (l *lastGood) accept(name string, raw []byte, h config.Host) acceptance {
	kv, key := l.GW.KV(), process.KeyLastGood+name
	for tries := 1; ; tries++ {
		val, cas, _ := kv.Get(key) // of what cannot be read, nothing is known
		before := parseLastGood(val)
		set, forms, why := config.Update(raw, h, before.forms)
		if set == nil {
			return acceptance{err: why, first: true}
		}
		turn, known := l.turns[name], string(raw) == before.text
		if known {
			l.turns[name] = before.turn
		}
		if known || turn != unknownTurn && turn != before.turn {
			return acceptance{set, why, false, xxhash.Sum64(val)}
		}
		val = lastGoodRecord{before.turn + 1, string(raw), forms}.append(nil)
		err := kv.Set(key, val, cas)
		if err == nil {
			l.turns[name] = before.turn + 1
			return acceptance{set, why, true, xxhash.Sum64(val)}
		}
		if !errors.Is(err, lb.ErrMismatch) || tries == maxSwaps {
			// Not recorded: what is refused as a whole later counts as the first one, and requests pass, only natively.
			l.turns[name] = unknownTurn
			return acceptance{set: set, err: why, first: true}
		}
	}
}

// origin is the configuration that a set was read from.
type origin struct {
	name   string // of the plugin
	text   []byte // nil: the last good forms do not matter
	digest uint64 // of the record that the last good forms are from
}

// refresh reads the last good forms of the configuration's parts that are recorded now. It returns nil if they have not
// changed.
func (l *lastGood) refresh(o *origin) *config.Set {
	if o.text == nil {
		return nil
	}
	val, _, err := l.GW.KV().Get(process.KeyLastGood + o.name)
	record, digest := parseLastGood(val), xxhash.Sum64(val)
	if err != nil || digest == o.digest || record.text != string(o.text) {
		return nil
	}
	set, _, _ := config.Update(o.text, l.Kind, record.forms)
	if set != nil {
		o.digest = digest
	}
	return set
}

// inPlaceOf returns the last good configuration for one that is refused as a whole, nil if there was none. It returns
// false if the gateway can be left to keep the previous one.
func (l *lastGood) inPlaceOf(name string, raw []byte, h config.Host) (set *config.Set, accepted bool) {
	_, met := l.turns[name]
	val, _, err := l.GW.KV().Get(process.KeyLastGood + name)
	if err != nil {
		l.turns[name] = unknownTurn
		l.tolerate(name, raw)
		return nil, true
	}
	if !met && !l.tolerated(name, raw) {
		return nil, false
	}
	before := parseLastGood(val)
	set, _, _ = config.Update([]byte(before.text), h, before.forms)
	return set, true
}

// maxTolerated is how many bad configurations are remembered as tolerated.
const maxTolerated = 64

// tolerated reports whether a bad configuration was accepted because there was no good one yet. The gateway does not
// try it again.
func (l *lastGood) tolerated(name string, raw []byte) bool {
	val, _, _ := l.GW.KV().Get(process.KeyTolerated + name)
	digest := xxhash.Sum64(raw)
	for r := wire.NewReader(val); r.Len() >= 8; {
		if r.Uint64() == digest {
			return true
		}
	}
	return false
}

// tolerate records that a bad configuration was accepted. If it cannot, this VM knows it by turns.
func (l *lastGood) tolerate(name string, raw []byte) {
	if l.tolerated(name, raw) {
		return
	}
	val, cas, _ := l.GW.KV().Get(process.KeyTolerated + name)
	val = wire.Writer(val).Uint64(xxhash.Sum64(raw))
	_ = l.GW.KV().Set(process.KeyTolerated+name, val[max(0, len(val)-8*maxTolerated):], cas)
}

// maxListed is how many refused parts are named in the log.
const maxListed = 50

// reportRefusals counts what was refused of a configuration that is in force, and logs it if no other VM has.
func (l *lastGood) reportRefusals(got acceptance) {
	list := got.set.Refusals()
	kept := 0
	text := "configuration refused in part, the rest of it is in force:"
	for i, r := range list {
		then := "falls back to native balancing"
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
	l.Stats.Set(stats.BadRules, uint64(len(list)))
	l.Stats.Set(stats.KeptRules, uint64(kept))
	if len(list) == 0 {
		return
	}
	l.Stats.Count(stats.ConfigBad, 1)
	if got.first {
		l.GW.Log(host.Error, text+"\n"+got.err.Error())
	}
}
