package config

import (
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/setting"
)

// API is where the admission API is answered. The zero value: there is none.
type API struct {
	Path     string        // that all its paths begin with, without a slash at the end
	Token    policy.Secret // who calls it has
	LeaseTTL time.Duration // how long a task lives without a heartbeat
}

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

func setAPIPath(p *parser, c *Config, at string, v value) {
	if v.kind != kindString || !isAPIPath(v.text) {
		p.badValue(at, v, wantAPIPath)
		return
	}
	c.API.Path = strings.Clone(v.text)
}

func setAPIToken(p *parser, c *Config, at string, v value) {
	if secret, ok := p.longSecret(at, v, "random"); ok {
		c.API.Token = secret
	}
}

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
	p.bad(at, "got "+what+", want a string of "+strconv.Itoa(minSecret)+" to "+strconv.Itoa(setting.MaxText)+
		" bytes, "+kind)
	return "", false
}

// checkAPI compares the keys of the API with each other. There is none where no clusters with budgets are chosen among.
func (pt *part) checkAPI() {
	switch {
	case pt.needs().Budget && pt.AmongClusters() && pt.written[keyAPIPath]:
		if !pt.written[keyAPIToken] {
			pt.badKey(keyAPIToken, "missing, want a string of "+strconv.Itoa(minSecret)+
				" bytes or more that callers of the API send")
		}
		return
	case pt.needs().Budget && !pt.AmongClusters():
		pt.idle([]string{keyAPIPath, keyAPIToken, keyLeaseTTL}, `has no effect without lb_type "cluster"`)
	case pt.needs().Budget:
		pt.idle([]string{keyAPIToken, keyLeaseTTL}, "has no effect without api.path")
	}
	pt.API.Path, pt.API.Token = "", ""
}

// overlap returns a path of the list that the API's path is, is below, or is above; "" if there is none.
func (a *API) overlap(paths []string) string {
	for _, other := range paths {
		if other == a.Path || strings.HasPrefix(other, a.Path+"/") || strings.HasPrefix(a.Path, other+"/") {
			return other
		}
	}
	return ""
}

// API returns the configuration whose admission API a request path is for, nil if it is for none, and what follows the
// API's own path: "" or a path that begins with a slash. The request path may have a query.
func (s *Set) API(path string) (c *Config, below string) {
	for _, c := range s.apis {
		if rest, ok := pathBelow(path, c.API.Path); ok {
			return c, rest
		}
	}
	return nil, ""
}

// pathBelow returns what follows a path in that of a request without its query, and whether it begins with it.
func pathBelow(path, of string) (rest string, ok bool) {
	path, _, _ = strings.Cut(path, "?")
	rest, ok = strings.CutPrefix(path, of)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// HasAPI reports whether there is an admission API.
func (s *Set) HasAPI() bool { return len(s.apis) > 0 }

// claimAPI records the API of a configuration.
func (s *Set) claimAPI(c *Config) {
	if c.Enabled && c.API.Path != "" {
		s.apis = append(s.apis, c)
	}
}
