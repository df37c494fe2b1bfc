package region

import "time"

// Hop tells where a request comes from.
type Hop struct {
	From string // region that has forwarded it; "" for a client's request
	// Odd is what is unusual about a hop that was signed with the secret: [ErrStale] if it was signed more than
	// [MaxSkew] ago, as that of a retry may be, or by a clock that is as much ahead; [ErrElsewhere] if it is for
	// another region, or comes from this one. The request may have been forwarded, or carry the hop of another one.
	Odd error
	// Forged is why a header that claims to be a hop is none, nil if there is no such header, or a genuine one. It is
	// to be taken off; the request is a client's.
	Forged error
}

// Signed reports whether a gateway with the secret has signed the hop: the request is not forwarded again.
func (h *Hop) Signed() bool { return h.From != "" }

// Forwarded reports whether the request comes from another region's gateway, which has sent it here just now: it is not
// counted as a client's.
func (h *Hop) Forwarded() bool { return h.Signed() && h.Odd == nil }

// SignHop returns the text by which one region's gateway shows another that it has forwarded a request, at a time since
// the Unix epoch. The subject is what both can see of the request, such as its path: the text is no good for a request
// with another subject.
func (k *Key) SignHop(from, to string, wall time.Duration, subject string) string {
	r := Route{From: from, To: to, At: wall}
	return k.seal(hopKind, r.append(k.values()), short(subject))
}

// ReadHop tells where a request with the subject comes from, by its text, which is "" if it has none, at a time since
// the Unix epoch. How long that takes does not depend on how much of a signature is right.
//
// The signature alone decides whether the request may be forwarded, so that none goes around between regions, however
// late it comes, and wherever it has got to. Who has seen a hop can keep other requests with its subject where they
// are; and within [MaxSkew], in the region that it is for, they are not counted as a client's.
func (k *Key) ReadHop(text, self string, wall time.Duration, subject string) Hop {
	if text == "" {
		return Hop{}
	}
	values, err := k.open(hopKind, text, short(subject))
	if err != nil {
		return Hop{Forged: err}
	}
	at, err := readWhole(values, self, wall)
	if at.From == "" {
		return Hop{Forged: err}
	}
	return Hop{From: at.From, Odd: err}
}

// maxSubject is how much of a subject is signed, in bytes.
const maxSubject = 4096

func short(subject string) string { return subject[:min(len(subject), maxSubject)] }
