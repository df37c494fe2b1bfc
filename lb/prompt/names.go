package prompt

import (
	"encoding/binary"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// nameFields decide for whom a prompt is cached, and with what chat template: options of the template may be printed at
// the beginning of a prompt. Of those behind the first commonNames only the ones that are there are part of the keys.
var nameFields = [...]field{
	fieldModel, fieldLoraPath, fieldCacheSalt, fieldChatTemplate, fieldTemplateOptions,
	fieldReasoning, fieldReasoningEffort,
	fieldExtraKey, fieldLora, fieldLoraID, fieldLoraName, fieldLoraTask, fieldMediaOptions, fieldParameters,
}

const (
	commonNames = 7
	// adapterID is the member of parameters that names an adapter: of TGI and LoRAX.
	adapterID = "adapter_id"
)

// adapterIn returns the value of the adapter's name in parameters, as it is written.
func adapterIn(parameters []byte) (name []byte) {
	values := maxMemberValues
	eachMember(parameters, 0, &values, func(key []byte, escaped bool, at int) bool {
		if !isName(key, escaped, adapterID) {
			return true
		}
		end, _ := jsontext.SkipValue(parameters, at, values)
		name = parameters[at:end]
		return false
	})
	return name
}

// nameIn appends the name in a value to dst: the text of a string, anything else as it is written.
func nameIn(dst, value []byte) []byte {
	if len(value) == 0 || value[0] != '"' {
		return append(dst, value...)
	}
	content, _, _ := jsontext.SkipString(value, 0)
	return jsontext.AppendUnescaped(dst, content)
}

// maxModelName is the length in bytes up to which a name is unescaped; a longer one is hashed as it is written.
const maxModelName = 1 << 10

// addNames adds the names that the body, and the path, contain. It returns false if the body ends within one of them.
func (c *Chainer) addNames(body []byte, p *Parts) bool {
	c.printsIDs = printsIDs([]byte(p.inPath))
	for i, f := range nameFields {
		if f == p.cutField {
			return false
		}
		name := p.of(body, f)
		if f == fieldParameters && len(name) > 0 {
			name = adapterIn(name)
		}
		if isNothing(name) {
			name = nil
		}
		if len(name) <= maxModelName {
			c.name = nameIn(c.name[:0], name)
			name = c.name
		}
		if f == fieldModel {
			c.printsIDs = c.printsIDs || printsIDs(name)
		}
		switch {
		case i < commonNames:
			c.addName(name)
		case len(name) > 0:
			c.addRareName(f, name)
		}
	}
	if p.inPath != "" {
		c.addRareName(fieldModel, []byte(p.inPath))
	}
	return true
}

// addRareName adds a name that few prompts have.
func (c *Chainer) addRareName(f field, name []byte) {
	c.addName([]byte{byte(f)})
	c.addName(name)
}

// addName adds a name that all keys depend on.
func (c *Chainer) addName(name []byte) {
	c.hash.Write(binary.LittleEndian.AppendUint64(c.small[:0], uint64(len(name))))
	c.hash.Write(name)
}
