package config

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb/setting"
)

// parser decodes values of one configuration.
type parser struct {
	findings
	host Host
	base Config // the defaults
}

// decode checks v and stores it in the key's field of the settings. It reports what is wrong under the path at.
func (p *parser) decode(k *setting.Key, settings any, at string, v value) {
	into := k.Field(settings)
	switch k.Type {
	case setting.Boolean:
		if b, ok := p.boolean(k, at, v); ok {
			*into.(*bool) = b
		}
	case setting.Duration:
		if d, ok := p.duration(k, at, v); ok {
			*into.(*time.Duration) = d
			if hint := inSeconds(k, v); hint != "" {
				p.takenAs(at, v, brief(d)+hint)
			}
		}
	case setting.Text, setting.Secret:
		if s, ok := p.string(k, at, v); ok && !(k.Type == setting.Secret && p.wellKnown(at, s)) {
			if k.Name == keyPassword && IsPlaceholder(s) {
				p.warn(at, everybodyKnows)
			}
			*into.(*string) = strings.Clone(s)
		}
	case setting.Choice:
		if name, ok := p.choice(k, at, v); ok {
			p.choose(into, at, name)
		}
	case setting.Object:
		p.entries(k, into.(setting.EntryMap), at, v)
	default:
		switch f, ok := p.number(k, at, v); {
		case ok && f <= 0 && k.ZeroIsDefault:
			p.setDefault(k, settings, at)
		case ok:
			storeNumber(into, f)
		}
	}
}

// choose stores the name of a choice, or what it stands for.
func (p *parser) choose(into any, at, name string) {
	switch into := into.(type) {
	case *string:
		*into = name
	case interface{ UnmarshalText(text []byte) error }:
		if err := into.UnmarshalText([]byte(name)); err != nil {
			p.bad(at, err.Error())
		}
	}
}

// storeNumber stores a number; in a time.Duration it counts seconds.
func storeNumber(into any, f float64) {
	switch into := into.(type) {
	case *float64:
		*into = f
	case *time.Duration:
		*into = time.Duration(f) * time.Second
	case *int:
		*into = int(f)
	}
}

func (p *parser) boolean(k *setting.Key, at string, v value) (b, ok bool) {
	if k.Loose {
		return p.looseBoolean(at, v)
	}
	if v.kind != kindBool {
		p.badValue(at, v, ", want true or false")
		return false, false
	}
	return v.text == "true", true
}

// number decodes a number, a whole number or a size, which is a number of bytes or a string with its unit.
func (p *parser) number(k *setting.Key, at string, v value) (float64, bool) {
	if k.Loose {
		return p.looseNumber(k, at, v)
	}
	f, ok := v.float()
	if k.Type == setting.Size {
		f, ok = v.size()
	}
	whole := k.Type != setting.Number
	isZero := f == 0 && k.OrZero
	if !ok || f < k.Min && !isZero || f > k.Max || whole && f != math.Trunc(f) {
		p.badValue(at, v, ", want "+wanted(k))
		return 0, false
	}
	return f, true
}

// wanted describes the numbers, or the secret, that a key accepts.
func wanted(k *setting.Key) string {
	bounds := " from " + short(k.Min) + " to " + short(k.Max)
	if k.OrZero {
		bounds += ", or 0"
	}
	switch k.Type {
	case setting.Number:
		return "a number" + bounds
	case setting.Size:
		return "a size" + bounds + ` bytes, as a number or a string like "256KiB"`
	case setting.Secret:
		return wantSecret + anySecret
	}
	return "a whole number" + bounds
}

// string decodes a text, or a secret, which is never repeated in an error and may be empty unless it is required.
func (p *parser) string(k *setting.Key, at string, v value) (string, bool) {
	const bytes = " bytes"
	switch {
	case k.Loose:
		return p.looseText(at, v)
	case k.Type == setting.Secret && k.Required:
		secret, ok := p.longSecret(at, v, anySecret)
		return string(secret), ok
	case k.Type == setting.Secret:
		if v.kind != kindString || len(v.text) > setting.MaxText {
			p.bad(at, "got "+v.kind.String()+", want a string of at most "+strconv.Itoa(setting.MaxText)+bytes)
			return "", false
		}
	case v.kind != kindString || v.text == "" || len(v.text) > setting.MaxText:
		p.badValue(at, v, ", want a string of 1 to "+strconv.Itoa(setting.MaxText)+bytes)
		return "", false
	}
	return v.text, true
}

func (p *parser) choice(k *setting.Key, at string, v value) (string, bool) {
	if k.Loose {
		return p.looseChoice(k, at, v)
	}
	return p.oneOf(k.Choices, at, v)
}

// oneOf decodes one of the known names.
func (p *parser) oneOf(known []string, at string, v value) (string, bool) {
	if i := slices.Index(known, v.text); i >= 0 && v.kind == kindString {
		return known[i], true
	}
	p.badValue(at, v, ", want "+oneOf(known)+DidYouMean(v.text, known))
	return "", false
}

// duration decodes a number of milliseconds, Higress's unit, or a string with its unit.
func (p *parser) duration(k *setting.Key, at string, v value) (time.Duration, bool) {
	lo, hi := ofMs(k.Min), ofMs(k.Max)
	if k.Loose {
		return p.looseDuration(lo, hi, at, v)
	}
	d, ok := v.duration()
	if !ok || d < lo || d > hi {
		p.badValue(at, v, ", want a duration from "+brief(lo)+" to "+brief(hi)+
			`, as milliseconds or a string like "20ms"`+inSeconds(k, v))
		return 0, false
	}
	return d, true
}

// inSeconds returns how a number without a unit is written in seconds, "" if it can hardly be meant so: it is not
// small, the key is Higress's, or does not take so many seconds.
func inSeconds(k *setting.Key, v value) string {
	f, plain := v.number()
	if !plain || k.Loose || f <= 0 || f >= setting.Second || f*setting.Second < k.Min || f*setting.Second > k.Max {
		return ""
	}
	return `; in seconds it is "` + short(f) + `s"`
}

// ofMs is not inlined, for the size of the artifacts.
//
//go:noinline
func ofMs(ms float64) time.Duration { return time.Duration(math.Round(ms * float64(time.Millisecond))) }

// float returns a finite number.
func (v value) float() (float64, bool) {
	if v.kind != kindNumber {
		return 0, false
	}
	return parseFloat(v.text)
}

func parseFloat(s string) (float64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

func (v value) duration() (time.Duration, bool) {
	if v.kind == kindString {
		d, err := time.ParseDuration(v.text)
		return d, err == nil
	}
	ms, ok := v.float()
	if !ok || math.Abs(ms) > 1e12 {
		return 0, false
	}
	return ofMs(ms), true
}

var sizeUnits = []struct {
	suffix string
	bytes  float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}}

func (v value) size() (float64, bool) {
	if v.kind != kindString {
		return v.float()
	}
	for _, u := range sizeUnits {
		if digits, ok := strings.CutSuffix(v.text, u.suffix); ok {
			f, ok := parseFloat(strings.TrimRight(digits, " "))
			return f * u.bytes, ok
		}
	}
	return 0, false
}

// setDefault stores the key's default in the settings, if there is one.
func (p *parser) setDefault(k *setting.Key, settings any, at string) {
	if v, ok := defaultOf(k); ok {
		p.decode(k, settings, at, v)
	}
}

// defaultOf returns a key's default, if there is one.
func defaultOf(k *setting.Key) (v value, ok bool) {
	if k.Default == "" {
		return value{}, false
	}
	v, err := parseJSON(k.Default)
	return v, err == nil
}

// nameLetters are the characters of names of services, and of paths beside separators.
const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
