package snapshot

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/warmgate/warmgate/lb/setting"
	"github.com/warmgate/warmgate/plugin/config"
)

// leftOut stands for what is not shown.
const leftOut = "(left out)"

var (
	// secretNames finds names of what is secret, in configurations of anybody.
	secretNames = regexp.MustCompile(`(?i)passw|passphrase|pwd|secret|credential|authorization|cookie|private|` +
		`signature|api[-_]?key|(^|[-_.])(auth|pass)$|(token|key)$|^(tokens|keys|bearer|dsn)$`)
	// secretTexts finds texts that are secret by their form, or have a secret in them.
	secretTexts = regexp.MustCompile(`(?i)\b(bearer|basic)\s+\S|\b(sk|pk|rk|ghp|gho|glpat|xox[abprs])[-_]\w{8}|` +
		`\beyJ[\w-]{10}|\b(AKIA|ASIA)[0-9A-Z]{12}|\bAIza[\w-]{20}|-----BEGIN|` +
		`(passw(or)?d|secret|token|api[-_]?key|authorization)\s*[=:]\s*\S|` +
		`[^\s:/@]:[^\s/@]+@\w`) // the last: user:password@host, where no URL begins
	longRuns = regexp.MustCompile(`[\w+/=-]{20,}`)
	hexRun   = regexp.MustCompile(`^[0-9a-fA-F-]{32,}$`)
)

// documented tells of each of the plugin's keys, by its full name, whether it is a secret.
var documented = sync.OnceValue(func() map[string]bool {
	secret := map[string]bool{}
	for _, k := range config.Keys() {
		secret[k.Name] = k.Setting.Type == setting.Secret || strings.HasSuffix(k.Name, "password")
	}
	return secret
})

// withoutSecrets returns a decoded JSON value of a configuration without what is secret in it: what a key says to be
// so, texts that look so, and users and queries of URLs. The keys of objects count, too. name is the full name of the
// key with that value.
func withoutSecrets(v any, name string) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		hidden := 0
		for _, key := range slices.Sorted(maps.Keys(v)) {
			shown := key
			if looksSecret(key) {
				hidden++
				shown = fmt.Sprintf("%s #%d", leftOut, hidden)
			}
			below := strings.TrimPrefix(name+"."+key, ".")
			if key == "_rules_" { // each has the keys of the whole
				below = ""
			}
			if isSecretName(below) {
				out[shown] = leftOut
			} else {
				out[shown] = withoutSecrets(v[key], below)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = withoutSecrets(item, name)
		}
		return out
	case string:
		return plainText(v)
	}
	return v
}

func isSecretName(name string) bool {
	if secret, known := documented()[name]; known {
		return secret
	}
	return secretNames.MatchString(name[strings.LastIndexByte(name, '.')+1:])
}

// plainText returns a text without what is secret in it.
func plainText(text string) string {
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		if err != nil {
			return leftOut
		}
		u.User, u.RawQuery, u.Fragment, u.RawFragment = nil, "", "", ""
		if text = u.String(); strings.Contains(text, "@") { // of a URL within a text
			return leftOut
		}
	}
	if looksSecret(text) {
		return leftOut
	}
	return text
}

// looksSecret reports whether a text has a known kind of secret, or a long run of characters as random ones are: with
// digits and letters of both cases, or of many hexadecimal digits.
func looksSecret(text string) bool {
	if secretTexts.MatchString(text) {
		return true
	}
	for _, run := range longRuns.FindAllString(text, -1) {
		if hexRun.MatchString(run) || strings.ContainsAny(run, "0123456789") && strings.ToLower(run) != run &&
			strings.ToUpper(run) != run && run[0] != '/' {
			return true
		}
	}
	return false
}
