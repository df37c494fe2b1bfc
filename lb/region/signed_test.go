package region

import (
	"bytes"
	"encoding/base64"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/blake2s"

	"github.com/warmgate/warmgate/internal/wire"
)

func TestProbe(t *testing.T) {
	k := NewKey(secret)
	text := k.SignProbe("us", "eu", wall, 7)
	for _, c := range []struct {
		about string
		key   *Key
		text  string
		self  string
		wall  time.Duration
		want  error
	}{
		{"as it was sent", k, text, "eu", wall, nil},
		{"by a gateway with the same secret", NewKey(secret), text, "eu", wall, nil},
		{"late", k, text, "eu", wall + MaxSkew, nil},
		{"too late", k, text, "eu", wall + MaxSkew + time.Millisecond, ErrStale},
		{"early", k, text, "eu", wall - MaxSkew, nil},
		{"too early", k, text, "eu", wall - MaxSkew - time.Millisecond, ErrStale},
		{"with another secret", NewKey("another"), text, "eu", wall, ErrForged},
		{"for another region", k, text, "asia", wall, ErrElsewhere},
		{"sent back", k, text, "us", wall, ErrElsewhere},
		{"nothing", k, "", "eu", wall, ErrMalformed},
		{"a version", k, text[:1], "eu", wall, ErrMalformed},
		{"another version", k, "2" + text[1:], "eu", wall, ErrMalformed},
		{"another kind", k, "1a" + text[2:], "eu", wall, ErrMalformed},
		{"without the signature", k, text[:30], "eu", wall, ErrMalformed},
		{"cut", k, text[:len(text)-4], "eu", wall, ErrForged},
		{"with more", k, text + "AAAA", "eu", wall, ErrForged},
		{"on two lines", k, text[:9] + "\n" + text[9:], "eu", wall, ErrMalformed},
		{"not base64", k, text[:9] + "*" + text[10:], "eu", wall, ErrMalformed},
		{"long", k, text + strings.Repeat("A", MaxText), "eu", wall, ErrMalformed},
	} {
		got, err := c.key.ReadProbe(c.text, c.self, c.wall)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.about, err, c.want)
		}
		if want := (Route{"us", "eu", wall, 7}); err == nil && got != want {
			t.Errorf("%s: %+v", c.about, got)
		}
	}
	for _, r := range text {
		if !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", r) {
			t.Errorf("%q in %s", r, text)
		}
	}
}

// A text of the greatest length is read; behind the values of a route there is nothing.
func TestLengthsOfTexts(t *testing.T) {
	k := NewKey(secret)
	for n, want := range map[int]error{MaxText: ErrForged, MaxText + 1: ErrMalformed} {
		if _, err := k.ReadProbe("1p"+strings.Repeat("A", n-2), "eu", wall); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", n, err, want)
		}
	}
	r := Route{"us", "eu", wall, 7}
	if _, err := k.ReadProbe(k.seal(probeKind, r.append(nil).Byte(0), ""), "eu", wall); !errors.Is(err, ErrMalformed) {
		t.Errorf("with more: %v", err)
	}
	r.At = 1<<63 - 1
	if _, err := k.ReadProbe(k.seal(probeKind, r.append(nil), ""), "eu", wall); !errors.Is(err, ErrStale) {
		t.Errorf("in 292 years: %v", err)
	}
}

// Names that cannot be configured are refused although they are signed.
func TestNames(t *testing.T) {
	k, long := NewKey(secret), strings.Repeat("x", MaxName+1)
	for _, from := range []string{"", long} {
		if _, err := k.ReadProbe(k.SignProbe(from, "eu", wall, 7), "eu", wall); !errors.Is(err, ErrMalformed) {
			t.Errorf("from %q: %v", from, err)
		}
	}
	if _, err := k.ReadProbe(k.SignProbe("us", long, wall, 7), long, wall); !errors.Is(err, ErrMalformed) {
		t.Errorf("to %q: %v", long, err)
	}
	if _, err := k.ReadProbe(k.SignProbe(long[1:], "eu", wall, 7), "eu", wall); err != nil {
		t.Errorf("the longest name: %v", err)
	}
}

// Whatever single character of a text is another one, and however it is cut, it is refused.
func TestChangedTexts(t *testing.T) {
	k := NewKey(secret)
	probe := Route{"us", "eu", wall, 7}
	asked, hop := k.SignProbe("us", "eu", wall, 7), k.SignHop("us", "eu", wall, "/v1 7")
	answer := k.SignAnswer(&probe, wall, State{3, 2, time.Second}, []View{{1, true, true, time.Second}})
	texts := map[string]func(string) error{
		answer: func(s string) error { _, err := k.ReadAnswer(s, "us", wall); return err },
		asked:  func(s string) error { _, err := k.ReadProbe(s, "eu", wall); return err },
		hop:    func(s string) error { return k.ReadHop(s, "eu", wall, "/v1 7").Forged },
	}
	if len(texts) != 3 {
		t.Fatal("two texts are the same")
	}
	for text, read := range texts {
		if err := read(text); err != nil {
			t.Fatal(err)
		}
		for i := range text {
			for _, c := range "A9_" {
				if other := text[:i] + string(c) + text[i+1:]; other != text && read(other) == nil {
					t.Errorf("%s is taken for %s", other, text)
				}
			}
			if i > 0 && read(text[:i]) == nil {
				t.Errorf("%s is taken", text[:i])
			}
		}
		for other, readOther := range texts {
			if other != text && readOther(text) == nil {
				t.Errorf("%s is taken for another kind", text)
			}
		}
	}
}

func TestAnswer(t *testing.T) {
	k := NewKey(secret)
	probe := Route{"us", "eu", wall, 7}
	views := []View{{5, true, false, 80 * time.Millisecond}, {6, false, true, 0}}
	text := k.SignAnswer(&probe, wall+time.Second, State{3, 2, 1500 * time.Millisecond}, views)
	got, err := k.ReadAnswer(text, "us", wall)
	want := Answer{Route{"eu", "us", wall + time.Second, 7}, State{3, 2, 1500 * time.Millisecond}, views}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := k.ReadAnswer(text, "eu", wall); !errors.Is(err, ErrElsewhere) {
		t.Errorf("in another region: %v", err)
	}
	most := State{MaxOpen + 1, MaxQueued + 1, MaxWait + time.Hour}
	got, err = k.ReadAnswer(k.SignAnswer(&probe, wall, most, make([]View, MaxPeers+9)), "us", wall)
	if err != nil || got.State != (State{MaxOpen, MaxQueued, MaxWait}) || len(got.Views) != MaxPeers {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = k.ReadAnswer(k.SignAnswer(&probe, wall, State{-1, -1, -1}, []View{{Distance: -1}}), "us", wall)
	if err != nil || got.State != (State{}) || got.Views[0].Distance != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Gateways of another version of the plugin read the same texts.
func TestFormatsOfTexts(t *testing.T) {
	k := NewKey(secret)
	mac := func(what byte, subject string, values wire.Writer) string {
		key := blake2s.Sum256([]byte(secret))
		m, err := blake2s.New256(key[:])
		if err != nil {
			t.Fatal(err)
		}
		m.Write([]byte{'1', what, 0, byte(len(subject))})
		m.Write([]byte(subject))
		m.Write(values)
		return "1" + string(what) + base64.RawURLEncoding.EncodeToString(m.Sum(values))
	}
	there := wire.Writer(nil).Text("us").Text("eu").Uint64(uint64(wall.Milliseconds()))
	back := wire.Writer(nil).Text("eu").Text("us").Uint64(uint64(wall.Milliseconds())).Uint64(7)
	back = back.Uvarint(3).Uvarint(2).Uvarint(1500).Uvarint(1).Uint32(5).Byte(3).Uvarint(80)
	probe := Route{"us", "eu", wall, 7}
	views := []View{{5, true, true, 80 * time.Millisecond}}
	for _, c := range []struct{ got, want string }{
		{k.SignProbe("us", "eu", wall, 7), mac('p', "", slices.Clone(there).Uint64(7))},
		{k.SignHop("us", "eu", wall, "/v1 7"), mac('h', "/v1 7", slices.Clone(there).Uint64(0))},
		{k.SignAnswer(&probe, wall, State{3, 2, 1500 * time.Millisecond}, views), mac('a', "", back)},
	} {
		if c.got != c.want {
			t.Errorf("\n got %s\nwant %s", c.got, c.want)
		}
	}
}

// The longest answer fits.
func TestLongestAnswer(t *testing.T) {
	k, long := NewKey(secret), strings.Repeat("x", MaxName)
	probe := Route{long[1:], long, wall, 1 << 63}
	views := make([]View, MaxPeers)
	for i := range views {
		views[i] = View{1 << 31, true, true, MaxWait}
	}
	text := k.SignAnswer(&probe, wall, State{MaxOpen, MaxQueued, MaxWait}, views)
	if _, err := k.ReadAnswer(text, long[1:], wall); err != nil || len(text) > MaxText {
		t.Errorf("%d bytes: %v", len(text), err)
	}
}

// Who lies about its state and knows the secret is refused if the numbers are absurd.
func TestAbsurdAnswers(t *testing.T) {
	k := NewKey(secret)
	back := Route{"eu", "us", wall, 7}
	answer := func(numbers ...uint64) wire.Writer {
		w := back.append(nil)
		for _, n := range numbers {
			w = w.Uvarint(n)
		}
		return w
	}
	hour := uint64(MaxWait.Milliseconds())
	view := func(distance uint64) []byte { return answer(1, 2, 3, 1).Uint32(5).Byte(3).Uvarint(distance) }
	many := append(answer(1, 2, 3, MaxPeers+1), bytes.Repeat([]byte{0}, viewSize*(MaxPeers+1))...)
	for _, c := range []struct {
		about  string
		values []byte
		want   error
	}{
		{"the limits", answer(MaxOpen, MaxQueued, hour, 0), nil},
		{"open", answer(MaxOpen+1, 0, 0, 0), ErrAbsurd},
		{"very open", answer(1<<63, 0, 0, 0), ErrAbsurd},
		{"queued", answer(0, MaxQueued+1, 0, 0), ErrAbsurd},
		{"wait", answer(0, 0, hour+1, 0), ErrAbsurd},
		{"distance", view(hour), nil},
		{"absurd distance", view(hour + 1), ErrAbsurd},
		{"views", many, ErrAbsurd},
		{"views that are not there", answer(1, 2, 3, 2), ErrMalformed},
		{"without views", answer(1, 2, 3), ErrMalformed},
		{"with more", answer(1, 2, 3, 0, 9), ErrMalformed},
	} {
		if _, err := k.ReadAnswer(k.seal(answerKind, c.values, ""), "us", wall); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.about, err, c.want)
		}
	}
}

func TestHop(t *testing.T) {
	k := NewKey(secret)
	text := k.SignHop("us", "eu", wall, "/v1/chat/completions 7")
	for _, c := range []struct {
		about, text, self, subject string
		after                      time.Duration
		from                       string
		odd, forged                error
	}{
		{"a client's", "", "eu", "/v1/chat/completions 7", 0, "", nil, nil},
		{"forwarded", text, "eu", "/v1/chat/completions 7", time.Second, "us", nil, nil},
		{"of another request", text, "eu", "/v1/chat/completions 8", 0, "", nil, ErrForged},
		{"for another region", text, "asia", "/v1/chat/completions 7", 0, "us", ErrElsewhere, nil},
		{"back at home", text, "us", "/v1/chat/completions 7", 0, "us", ErrElsewhere, nil},
		{"old", text, "eu", "/v1/chat/completions 7", time.Minute, "us", ErrStale, nil},
		{"of the future", text, "eu", "/v1/chat/completions 7", -time.Minute, "us", ErrStale, nil},
		{"made up", "1h" + strings.Repeat("A", 90), "eu", "/v1/chat/completions 7", 0, "", nil, ErrForged},
		{"nonsense", "yes", "eu", "/v1/chat/completions 7", 0, "", nil, ErrMalformed},
		{"a probe", k.SignProbe("us", "eu", wall, 7), "eu", "", 0, "", nil, ErrMalformed},
		{"from nobody", k.SignHop("", "eu", wall, "7"), "eu", "7", 0, "", nil, ErrMalformed},
	} {
		got := k.ReadHop(c.text, c.self, wall+c.after, c.subject)
		if got.From != c.from || !errors.Is(got.Forged, c.forged) || !errors.Is(got.Odd, c.odd) ||
			got.Signed() != (c.from != "") ||
			got.Forwarded() != (c.from != "" && c.odd == nil) {
			t.Errorf("%s: %+v", c.about, got)
		}
	}
	long := strings.Repeat("x", maxSubject)
	text = k.SignHop("us", "eu", wall, long+"y")
	if got := k.ReadHop(text, "eu", wall, long+"z"); got.Forged != nil {
		t.Errorf("behind what is signed of a subject: %v", got.Forged)
	}
	if got := k.ReadHop(text, "eu", wall, long[1:]); !errors.Is(got.Forged, ErrForged) {
		t.Errorf("a shorter subject: %+v", got)
	}
	// What belongs to the subject cannot be moved into the values, nor the other way.
	text = k.seal(hopKind, wire.Writer("values"), "ab")
	if got := k.ReadHop(text, "eu", wall, "abv"); !errors.Is(got.Forged, ErrForged) {
		t.Errorf("%+v", got)
	}
}

// FuzzRead has texts of any kind read as any other, with and without a right signature.
func FuzzRead(f *testing.F) {
	k := NewKey(secret)
	probe := Route{"us", "eu", wall, 7}
	for _, text := range []string{
		k.SignProbe("us", "eu", wall, 7), k.SignHop("us", "eu", wall, "s"),
		k.SignAnswer(&probe, wall, State{3, 2, time.Second}, []View{{1, true, true, time.Second}}),
	} {
		f.Add(text, byte(text[1]))
		body, err := encoding.DecodeString(text[2:])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(body[:len(body)-32]), byte(text[1]))
	}
	f.Fuzz(func(t *testing.T, text string, what byte) {
		if _, err := k.ReadProbe(text, "eu", wall); err == nil && !strings.HasPrefix(text, "1p") {
			t.Errorf("%q is a probe", text)
		}
		signed := k.seal(kind(what), wire.Writer(text), "s")
		r, err := k.ReadProbe(k.seal(probeKind, wire.Writer(text), ""), "eu", wall)
		if err == nil && (r.From == "" || r.From == "eu" || r.To != "eu" || (r.At-wall).Abs() > MaxSkew) {
			t.Errorf("%q is read as %+v", text, r)
		}
		h := k.ReadHop(signed, "eu", wall, "s")
		if h.Signed() && h.Forged != nil || h.Forwarded() && h.From == "eu" {
			t.Errorf("%+v", h)
		}
		a, err := k.ReadAnswer(k.seal(answerKind, wire.Writer(text), ""), "us", wall)
		if err == nil && (a.To != "us" || a.Open < 0 || a.Open > MaxOpen || a.Queued < 0 || a.Queued > MaxQueued ||
			a.Wait < 0 || a.Wait > MaxWait || len(a.Views) > MaxPeers) {
			t.Errorf("%+v", a)
		}
	})
}

func BenchmarkHop(b *testing.B) {
	k := NewKey(secret)
	subject := "/v1/chat/completions 3f2a4c8e-0d6b-4a57-9b1e-5c2f7a9d8e01"
	text := k.SignHop("us-east-1", "eu-central-1", wall, subject)
	b.Run("sign", func(b *testing.B) {
		for b.Loop() {
			k.SignHop("us-east-1", "eu-central-1", wall, subject)
		}
	})
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			if h := k.ReadHop(text, "eu-central-1", wall, subject); !h.Forwarded() {
				b.Fatal(h.Forged)
			}
		}
	})
	b.Run("forged", func(b *testing.B) {
		forged := text[:len(text)-1] + "A"
		for b.Loop() {
			k.ReadHop(forged, "eu-central-1", wall, subject)
		}
	})
}
