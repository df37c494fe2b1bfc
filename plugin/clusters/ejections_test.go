package clusters

import (
	"testing"
	"time"
)

// Several clusters share the key: no write loses the entries of another, and old or ended ones are removed.
func TestEjectionsOfSeveralClusters(t *testing.T) {
	now := 10 * time.Hour
	all := ejections{
		"a":   {now, []byte("of a")},
		"b":   {now - maxEjectionAge, []byte("of b")},
		"old": {now - maxEjectionAge - 1, []byte("of old")},
		"end": {now, nil},
		"":    {now, []byte("of the one without a name")},
	}
	got := parseEjections(all.append(nil, now))
	if len(got) != 3 {
		t.Errorf("%d records are left: %v", len(got), got)
	}
	for _, name := range []string{"a", "b", ""} {
		if string(got[name].entries) != string(all[name].entries) || got[name].written != all[name].written {
			t.Errorf("%q: %v, want %v", name, got[name], all[name])
		}
	}
	if raw := (ejections{}).append(nil, now); len(raw) == 0 || len(parseEjections(raw)) != 0 {
		t.Errorf("nothing is written as %q", raw)
	}
}

// The value in shared memory is byte for byte as documented: VMs with another version of the plugin read it.
func TestFormatsOfEjections(t *testing.T) {
	const at = time.Duration(0x0102030400000000)
	got := ejections{"llm": {at, []byte("entry")}}.append(nil, at)
	if want := "\x03\x00llm" + "\x00\x00\x00\x00\x04\x03\x02\x01" + "\x05\x00\x00\x00entry"; string(got) != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if got := (ejections{}).append(nil, at); string(got) != "\x00" {
		t.Errorf("without any: %q", got)
	}
}

func FuzzEjections(f *testing.F) {
	f.Add([]byte("\x01\x00a12345678\x02\x00\x00\x00xy"))
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		for name, r := range parseEjections(raw) {
			if len(name)+len(r.entries) > len(raw) {
				t.Errorf("%q: %d bytes came out of %d", name, len(r.entries), len(raw))
			}
		}
	})
}
