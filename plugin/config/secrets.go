package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/setting"
)

// placeholders are the secrets in the shipped files and documents, which everybody can read.
var placeholders = [...]string{
	"change-me", "change-me-0123456789", "change-me-0123456789-chat", "change-me-0123456789-etl",
	"32 random bytes, the same in all regions", "replace this by 32 random bytes, the same in all regions",
	"the new secret, 32 random bytes", "the secret that all have, 32 random bytes",
}

const everybodyKnows = "is a placeholder that everybody knows: replace it"

// IsPlaceholder reports whether a secret is one of the documents.
func IsPlaceholder(text string) bool { return slices.Contains(placeholders[:], text) }

// wellKnown refuses a placeholder as a secret of the plugin's own. The password of Redis has only a warning: it is
// chosen elsewhere, and right as long as Redis takes it.
//
//go:noinline
func (p *parser) wellKnown(at, text string) bool {
	if !IsPlaceholder(text) {
		return false
	}
	p.bad(at, everybodyKnows)
	return true
}

// minSecret is the least length of a secret that nobody guesses, in bytes.
const minSecret = 16

// wantSecret is what is wanted of such a secret, whatever its kind; anySecret is the kind of which no more is wanted.
var wantSecret = "a string of " + strconv.Itoa(minSecret) + " to " + strconv.Itoa(setting.MaxText) + " bytes, "

const anySecret = "random"

// longSecret reads a secret that nobody guesses, which no message repeats.
func (p *parser) longSecret(at string, v value, kind string) (policy.Secret, bool) {
	what := v.kind.String()
	if n := len(v.text); v.kind == kindString {
		if p.wellKnown(at, v.text) {
			return "", false
		}
		if n >= minSecret && n <= setting.MaxText {
			return policy.Secret(strings.Clone(v.text)), true
		}
		what += " of " + strconv.Itoa(n) + " bytes"
	}
	p.bad(at, "got "+what+", want "+wantSecret+kind)
	return "", false
}
