package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb/setting"
)

// bound is a value at a bound of a key or beyond it, as JSON texts that mean the same.
type bound struct {
	texts []string
	want  any // what is stored; nil for a value that is refused
}

// boundsOf returns the values at the bounds of a key, those next to them, and one between them.
func boundsOf(k *key) []bound {
	plain := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	switch k.Type {
	case setting.Integer:
		whole := func(f float64, ok bool) bound {
			b := bound{texts: []string{plain(f), plain(f) + ".0", plain(f) + "e0"}}
			if ok {
				b.want = int(f)
			}
			return b
		}
		return []bound{whole(k.Min, true), whole(k.Max, true), whole(k.Min-1, false), whole(k.Max+1, false)}
	case setting.Size:
		size := func(f float64, ok bool) bound {
			b := bound{texts: []string{plain(f), strconv.Quote(plain(f) + "B"), strconv.Quote(plain(f) + " B")}}
			if ok {
				b.want = int(f)
			}
			return b
		}
		return []bound{size(k.Min, true), size(k.Max, true), size(k.Min-1, false), size(k.Max+1, false)}
	case setting.Number:
		number := func(f float64, ok bool) bound {
			b := bound{texts: []string{strconv.FormatFloat(f, 'e', -1, 64), plain(f)}}
			if ok {
				b.want = f
			}
			return b
		}
		below, above := math.Nextafter(k.Min, math.Inf(-1)), math.Nextafter(k.Max, math.Inf(1))
		bounds := []bound{number(k.Min, true), number(k.Max, true), number(below, false), number(above, false)}
		if k.OrZero {
			bounds = append(bounds, number(0, true), number(math.SmallestNonzeroFloat64, false), number(-1, false))
		}
		return bounds
	case setting.Duration:
		duration := func(d time.Duration, ok bool) bound {
			b := bound{texts: []string{
				strconv.Quote(d.String()), strconv.Quote(strconv.FormatInt(int64(d), 10) + "ns"),
				plain(float64(d) / 1e6),
			}}
			if ok {
				b.want = d
			}
			return b
		}
		lo, hi := time.Duration(k.Min)*time.Millisecond, time.Duration(k.Max)*time.Millisecond
		return []bound{
			duration(lo, true), duration(hi, true), duration(lo-time.Microsecond, false),
			duration(hi+time.Microsecond, false),
		}
	}
	return nil
}

// The bounds of each key are accepted, in every notation, and the next values beyond them are not.
func TestBoundsAreSharp(t *testing.T) {
	tested := 0
	for _, k := range strictKeys() {
		for _, b := range boundsOf(k) {
			tested++
			for _, text := range b.texts {
				if b.want == nil {
					refused(t, withKey(k, text), k.host(), k.Name)
					continue
				}
				c := mustParse(t, withKey(k, text), k.host())
				if got := k.stored(c); got != b.want {
					t.Errorf("%s %s: stored %v, want %v", k.Name, text, got, b.want)
				}
			}
		}
	}
	if tested < 100 {
		t.Errorf("only %d bounds", tested)
	}
}

var wantedBounds = regexp.MustCompile(`want an? .* from (\S+) to ([^\s,]+)`)

// An error of a number repeats what was written, and names bounds that are accepted when they are written instead.
func TestErrorsNameTheBounds(t *testing.T) {
	for _, k := range strictKeys() {
		for _, b := range boundsOf(k) {
			if b.want != nil {
				continue
			}
			what := refused(t, withKey(k, b.texts[0]), k.host(), k.Name)
			if !strings.HasPrefix(what, "got "+b.texts[0]+", want ") {
				t.Errorf("%s: %q does not begin with what was written, %s", k.Name, what, b.texts[0])
			}
			named := wantedBounds.FindStringSubmatch(what)
			if named == nil {
				t.Errorf("%s: %q names no bounds", k.Name, what)
				continue
			}
			for i, text := range named[1:] {
				if k.Type == setting.Duration {
					text = strconv.Quote(text)
				}
				c := mustParse(t, withKey(k, text), k.host())
				if want := boundsOf(k)[i].want; k.stored(c) != want {
					t.Errorf("%s: the message names %s, the bound is %v", k.Name, text, want)
				}
			}
		}
	}
}

// Each value between the bounds is stored as it was written.
func TestValuesWithinBoundsAreStored(t *testing.T) {
	for _, k := range strictKeys() {
		if len(boundsOf(k)) == 0 {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				text, want := drawWithin(rt, k)
				if got := k.stored(mustParse(rt, withKey(k, text), k.host())); got != want {
					rt.Fatalf("%s: stored %v, want %v", text, got, want)
				}
			})
		})
	}
}

// drawWithin draws a value within the bounds of a key of a numeric type, as JSON text and as it is stored.
func drawWithin(rt *rapid.T, k *key) (text string, want any) {
	switch k.Type {
	case setting.Integer:
		n := rapid.IntRange(int(k.Min), int(k.Max)).Draw(rt, "number")
		return strconv.Itoa(n), n
	case setting.Size:
		n := rapid.IntRange(int(k.Min), int(k.Max)).Draw(rt, "bytes")
		switch {
		case n%(1<<20) == 0:
			return fmt.Sprintf(`"%dMiB"`, n>>20), n
		case n%(1<<10) == 0:
			return fmt.Sprintf(`"%d KiB"`, n>>10), n
		}
		return strconv.Itoa(n), n
	case setting.Number:
		f := rapid.Float64Range(k.Min, k.Max).Draw(rt, "number")
		return strconv.FormatFloat(f, 'g', -1, 64), f
	case setting.Duration:
		us := rapid.Int64Range(int64(k.Min)*1000, int64(k.Max)*1000).Draw(rt, "microseconds")
		d := time.Duration(us) * time.Microsecond
		if us%1000 == 0 && rapid.Bool().Draw(rt, "as a number") {
			return strconv.FormatInt(us/1000, 10), d
		}
		return strconv.Quote(d.String()), d
	}
	rt.Fatalf("%s is no number", k.Name)
	return "", nil
}

// drawBeyond draws a JSON number or string that no key of the type accepts within its bounds.
func drawBeyond(rt *rapid.T, k *key) string {
	below := rapid.Bool().Draw(rt, "below")
	by := rapid.Float64Range(1, 1e12).Draw(rt, "by")
	f := k.Max + by
	if below {
		f = k.Min - by
	}
	if f == 0 && k.OrZero {
		f = k.Min / 2
	}
	if k.Type == setting.Duration && rapid.Bool().Draw(rt, "as text") {
		return strconv.Quote(strconv.FormatFloat(f/1000, 'f', 6, 64) + "s")
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// No value beyond the bounds is accepted, however far it is, and it does not reach the Config.
func TestValuesBeyondBoundsAreRefused(t *testing.T) {
	for _, k := range strictKeys() {
		if len(boundsOf(k)) == 0 {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				text := drawBeyond(rt, k)
				refused(rt, withKey(k, text), k.host(), k.Name)
				c, p := defaults(k.host()), &parser{host: k.host()}
				before := k.stored(&c)
				v, err := parseJSON(text)
				if err != nil {
					rt.Fatal(err)
				}
				if k.decode(p, &c, k.Name, v); k.stored(&c) != before || p.count != 1 {
					rt.Fatalf("%s: stored %v although it is refused", text, k.stored(&c))
				}
			})
		})
	}
}

// Only a number without a fraction is a whole number or a size.
func TestFractionsOfWholeNumbers(t *testing.T) {
	for _, k := range strictKeys() {
		middle := (k.Min + k.Max) / 2
		switch k.Type {
		case setting.Integer:
			refused(t, withKey(k, fmt.Sprint(math.Floor(middle)+0.5)), k.host(), k.Name)
		case setting.Size:
			refused(t, withKey(k, strconv.FormatFloat(math.Floor(middle)+0.5, 'f', 1, 64)), k.host(), k.Name)
			refused(t, withKey(k, fmt.Sprintf(`"%d.3KiB"`, int(middle)>>10)), k.host(), k.Name)
			whole := int(middle) >> 10 << 10
			text := fmt.Sprintf(`"%d.5KiB"`, whole>>10)
			if got := k.stored(mustParse(t, withKey(k, text), k.host())); got != whole+512 {
				t.Errorf("%s %s: %v bytes", k.Name, text, got)
			}
		}
	}
}

// A key of Higress's counts a number beyond its bounds as the nearest bound and warns, unless the key identifies
// something: then the number is an error.
func TestLooseNumbersAreClamped(t *testing.T) {
	tested := 0
	for _, k := range looseTyped() {
		if k.Type != setting.Integer && k.Type != setting.Number && k.Type != setting.Seconds {
			continue
		}
		tested++
		t.Run(k.Name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				f := math.Trunc(rapid.Float64Range(-1e10, 1e10).Draw(rt, "number"))
				text := strconv.FormatFloat(f, 'f', -1, 64)
				if rapid.Bool().Draw(rt, "as text") {
					text = strconv.Quote(text)
				}
				v, err := parseJSON(text)
				if err != nil {
					rt.Fatal(err)
				}
				c, p := defaults(Higress), &parser{host: Higress}
				n, ok := p.looseNumber(&k.Key, k.Name, v)
				inside := f >= k.Min && f <= k.Max
				switch {
				case k.Exact && !inside:
					if ok || p.count != 1 {
						rt.Fatalf("%s: taken as %v, want an error", text, n)
					}
				case !ok || n < k.Min || n > k.Max || inside && n != f:
					rt.Fatalf("%s: taken as %v, %v", text, n, ok)
				case (len(p.warnings) > 0) == inside:
					rt.Fatalf("%s: taken as %v with warnings %q", text, n, p.warnings)
				}
				want := time.Duration(n) * time.Second
				if n <= 0 && k.ZeroIsDefault {
					want, _ = k.stored(&c).(time.Duration)
				}
				if k.decode(&parser{}, &c, k.Name, v); k.Type == setting.Seconds && k.stored(&c) != want {
					rt.Fatalf("%s: stored %v, want %v", text, k.stored(&c), want)
				}
			})
		})
	}
	if tested < 5 {
		t.Errorf("only %d keys", tested)
	}
}
