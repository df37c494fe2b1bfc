package config

import (
	"strconv"
	"strings"
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

// pathBelow returns what follows a path in that of a request without its query, and whether it begins with it.
func pathBelow(path, of string) (rest string, ok bool) {
	path, _, _ = strings.Cut(path, "?")
	rest, ok = strings.CutPrefix(path, of)
	return rest, ok && (rest == "" || rest[0] == '/')
}
