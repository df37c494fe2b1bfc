package prompt

import (
	"strings"

	"github.com/warmgate/warmgate/internal/jsontext"
)

const (
	// maxListed is how many names a list of models has at most, and maxListTokens how many tokens of JSON.
	maxListed     = 512
	maxListTokens = 64 << 10
	// latestTag is the tag that Ollama adds to a name without one.
	latestTag = ":latest"
)

// ListedModels returns the names under which an endpoint serves models, by its list in OpenAI's form:
//
//	{"object": "list", "data": [{"id": "llama", "parent": null}, {"id": "sql", "parent": "llama"}]}
//
// Besides the ids these are aliases: that of an adapter behind its base model, llama:sql, as SGLang is asked for it,
// and that without Ollama's tag ":latest". Both are nil for what is no such list, is cut off, lists nothing or more
// than 512 names: half of a list would say of models that the endpoint does not have them.
func ListedModels(page []byte) (ids, aliases []string) {
	text := append(page[:len(page):len(page)], ' ') // what ends there is cut off
	at := jsontext.Space(text, 0)
	if end, _ := jsontext.SkipValue(text, at, maxListTokens); jsontext.Space(text, end) < len(text) ||
		end == len(text) {
		return nil, nil
	}
	lists, values := 0, maxListTokens
	eachMember(text, at, &values, func(key []byte, escaped bool, at int) bool {
		if isName(key, escaped, "data") {
			lists++
			ids, aliases = namesIn(text, at)
		}
		return true
	})
	if lists != 1 || len(ids)+len(aliases) > maxListed {
		return nil, nil
	}
	return ids, aliases
}

// namesIn returns the names in the list that begins at at, nil for one that is none.
func namesIn(text []byte, at int) (ids, aliases []string) {
	values := maxListTokens
	eachElement(text, at, &values, func(at int) bool {
		id, _ := MemberText(text[at:], []string{"id"})
		if id == "" || len(ids) > maxListed {
			ids, aliases = nil, nil
			return false
		}
		ids = append(ids, id)
		if base, _ := MemberText(text[at:], []string{"parent"}); base != "" {
			aliases = append(aliases, base+":"+id)
		}
		if name, tagged := strings.CutSuffix(id, latestTag); tagged && name != "" {
			aliases = append(aliases, name)
		}
		return true
	})
	return ids, aliases
}
