package region

import "time"

// Keys are those of a region: the key of its secret, and while that is being replaced, the key of the previous one.
//
// Regions get a new secret one after the other. So who has both tells others everything twice, signed with either, and
// takes what is signed with either; who has one of them, the old one or the new one, finds what it can read.
type Keys struct {
	Key      *Key
	Previous *Key // nil for none
}

// KeysOf returns the keys of a secret and of a previous one, which is "" for none.
func KeysOf(secret, previous string) Keys {
	k := Keys{Key: NewKey(secret)}
	if previous != "" {
		k.Previous = NewKey(previous)
	}
	return k
}

// Texts is what another region is told, as often as it takes. Text is where all look, and signed with the previous
// secret where there is one: gateways that know of no second text have no other. New is signed with the new one then,
// and "" otherwise.
type Texts struct{ Text, New string }

// SignProbe returns the texts by which one region asks another: see [Key.SignProbe].
func (k Keys) SignProbe(from, to string, wall time.Duration, nonce uint64) Texts {
	return k.sign(func(key *Key) string { return key.SignProbe(from, to, wall, nonce) })
}

// SignHop returns the texts by which one region's gateway shows another that it has forwarded a request: see
// [Key.SignHop].
func (k Keys) SignHop(from, to string, wall time.Duration, subject string) Texts {
	return k.sign(func(key *Key) string { return key.SignHop(from, to, wall, subject) })
}

func (k Keys) sign(by func(*Key) string) Texts {
	if k.Previous == nil {
		return Texts{Text: by(k.Key)}
	}
	return Texts{Text: by(k.Previous), New: by(k.Key)}
}

// ReadProbe returns which region asks this one, as [Key.ReadProbe] does, and the key to answer with.
func (k Keys) ReadProbe(t Texts, self string, wall time.Duration) (from Route, by *Key, err error) {
	k.each(t, func(key *Key, text string) bool {
		route, e := key.ReadProbe(text, self, wall)
		if by == nil || e == nil || from.From == "" {
			from, by, err = route, key, e
		}
		return e == nil
	})
	if by == nil {
		return from, nil, ErrMalformed
	}
	return from, by, err
}

// ReadHop tells where a request comes from by the texts that it has: see [Key.ReadHop].
func (k Keys) ReadHop(t Texts, self string, wall time.Duration, subject string) (from Hop) {
	k.each(t, func(key *Key, text string) bool {
		if h := key.ReadHop(text, self, wall, subject); h.Forwarded() || !from.Signed() {
			from = h
		}
		return from.Forwarded()
	})
	return from
}

// ReadAnswer returns an answer to this region: see [Key.ReadAnswer].
func (k Keys) ReadAnswer(text, self string, wall time.Duration) (Answer, error) {
	a, err := k.Key.ReadAnswer(text, self, wall)
	if err != nil && k.Previous != nil {
		if b, e := k.Previous.ReadAnswer(text, self, wall); e == nil {
			return b, nil
		}
	}
	return a, err
}

// each calls read with the texts that are there and the keys, until that returns true.
func (k Keys) each(t Texts, read func(key *Key, text string) bool) {
	for _, text := range [...]string{t.New, t.Text} {
		if text == "" {
			continue
		}
		if read(k.Key, text) || k.Previous != nil && read(k.Previous, text) {
			return
		}
	}
}
