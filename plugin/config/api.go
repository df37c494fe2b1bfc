package config

import (
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/lb/policy"
)

const maxAPIPath = 256

var wantAPIPath = ", want a path of at most " + strconv.Itoa(maxAPIPath) +
	` letters, digits and any of /-._~ like "/warmgate/v1", not the root and without a slash at its end`

// isAPIPath reports whether the text is a path in the only form that a gateway passes on as it is.
func isAPIPath(s string) bool {
	if len(s) > maxAPIPath || !strings.HasPrefix(s, "/") || strings.Trim(s, nameLetters+"/~") != "" {
		return false
	}
	for _, segment := range strings.Split(s[1:], "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

// setAPIPath returns the setter of a path of the plugin's own.
func setAPIPath(field func(*Config) *string) setter {
	return func(p *parser, c *Config, at string, v value) {
		if v.kind != kindString || !isAPIPath(v.text) {
			p.badValue(at, v, wantAPIPath)
			return
		}
		*field(c) = strings.Clone(v.text)
	}
}

// setAPIToken returns the setter of a token for such a path.
func setAPIToken(field func(*Config) *policy.Secret) setter {
	return func(p *parser, c *Config, at string, v value) {
		if secret, ok := p.longSecret(at, v, anySecret); ok {
			*field(c) = secret
		}
	}
}

var wantToken = "missing, want a string of " + strconv.Itoa(minSecret) + " bytes or more that callers of the API send"

// checkAPIs compares the keys of each API with each other. There is none for admission where no clusters with budgets
// are chosen among.
func (pt *part) checkAPIs() {
	switch {
	case !pt.written[keyInspectPath]:
		pt.idle([]string{keyInspectToken}, "has no effect without inspect.path")
	case !pt.written[keyInspectToken]:
		pt.badKey(keyInspectToken, wantToken)
	}
	switch {
	case pt.needs().Budget && pt.AmongClusters() && pt.written[keyAPIPath]:
		if !pt.written[keyAPIToken] && !pt.written[keyCallers] {
			pt.badKey(keyAPIToken, wantToken)
		}
		checkCallers(pt)
		return
	case pt.needs().Budget && !pt.AmongClusters():
		pt.idle([]string{keyAPIPath, keyAPIToken, keyAPIOnly, keyCallers, keyLeaseTTL, keyMaxHint},
			`has no effect without lb_type "cluster"`)
	case pt.needs().Budget:
		names := []string{keyAPIToken, keyAPIOnly, keyCallers, keyLeaseTTL, keyMaxHint}
		pt.idle(names, "has no effect without api.path")
	}
	pt.API = API{LeaseTTL: pt.API.LeaseTTL, MaxHint: pt.API.MaxHint}
}

// overlap returns a path of the list that the path is, is below, or is above; "" if there is none.
func overlap(path string, paths []string) string {
	for _, other := range paths {
		if other == path || strings.HasPrefix(other, path+"/") || strings.HasPrefix(path, other+"/") {
			return other
		}
	}
	return ""
}

// pathBelow returns what follows a path in that of a request without its query, and whether it begins with it.
func pathBelow(path, of string) (rest string, ok bool) {
	path, _, _ = strings.Cut(path, "?")
	rest, ok = strings.CutPrefix(path, of)
	return rest, ok && (rest == "" || rest[0] == '/')
}
