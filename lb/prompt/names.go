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

// nameIn appends the name in a value to dst: the text of a string, anything else in one spelling.
func nameIn(dst, value []byte) []byte {
	if len(value) == 0 || value[0] != '"' {
		dst, _ = appendPlain(dst, value, 0, 0)
		return dst
	}
	content, _, _ := jsontext.SkipString(value, 0)
	return jsontext.AppendUnescaped(dst, content)
}

// appendPlain appends the value that begins at i to dst, and returns the index after it. It is in the same spelling
// however it is written: without white space and escapes that need not be, and with members in the order of their keys.
// Objects that are too deep, or have too many members, stay as they are.
func appendPlain(dst, v []byte, i, depth int) (_ []byte, end int) {
	switch {
	case i >= len(v):
		return dst, i
	case v[i] == '"':
		return appendPlainString(dst, v, i)
	case (v[i] == '{' || v[i] == '[') && depth >= maxLevels:
		end, _ = jsontext.SkipValue(v, i, len(v))
	case v[i] == '{':
		return appendPlainObject(dst, v, i, depth)
	case v[i] != '[':
		end = jsontext.SkipScalar(v, i)
	default:
		dst = append(dst, '[')
		for i = jsontext.Space(v, i+1); i < len(v) && v[i] != ']'; i = jsontext.Space(v, i) {
			if v[i] == ',' {
				dst = append(dst, ',')
				i++
				continue
			}
			dst, i = appendPlain(dst, v, i, depth+1)
		}
		return append(dst, ']'), min(i+1, len(v))
	}
	return append(dst, v[i:end]...), end
}

// appendPlainObject appends an object.
func appendPlainObject(dst, v []byte, i, depth int) (_ []byte, end int) {
	var list [maxMembers]objectMember
	n, values := 0, len(v)
	end, _ = jsontext.SkipValue(v, i, len(v))
	eachMember(v[:end], i, &values, func(key []byte, _ bool, at int) bool {
		if n < len(list) {
			to, _ := jsontext.SkipValue(v, at, len(v))
			from := at - 1
			for v[from] != '"' {
				from--
			}
			m := objectMember{key: span{from - len(key), from}, value: span{at, to}}
			k := n
			for ; k > 0 && list[k-1].after(&m, v); k-- {
				list[k] = list[k-1]
			}
			list[k] = m
		}
		n++
		return true
	})
	if n > len(list) {
		return append(dst, v[i:end]...), end
	}
	dst = append(dst, '{')
	for k := range list[:n] {
		if k > 0 {
			dst = append(dst, ',')
		}
		dst, _ = appendPlainString(dst, v, list[k].key.from-1)
		dst, _ = appendPlain(append(dst, ':'), v, list[k].value.from, depth+1)
	}
	return append(dst, '}'), end
}

// appendPlainString appends a string.
func appendPlainString(dst, v []byte, i int) (_ []byte, end int) {
	content, escaped, end := jsontext.SkipString(v, i)
	if !escaped {
		return append(dst, v[i:end]...), end
	}
	dst = append(dst, '"')
	for _, b := range jsontext.AppendUnescaped(nil, content) {
		if b == '"' || b == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, b)
	}
	return append(dst, '"'), end
}

// maxModelName is the length in bytes up to which a name is unescaped; a longer one is hashed as it is written.
const maxModelName = 1 << 10

// addNames adds the names that the body, and the path, contain. It returns false if the body ends within one of them.
func (c *Chainer) addNames(body []byte, p *Parts) bool {
	c.printsIDs = p.inPath != "" && printsIDs([]byte(p.inPath))
	for i, f := range nameFields {
		if f == p.cutField {
			return false
		}
		name := p.of(body, f)
		if len(name) == 0 && i >= commonNames {
			continue
		}
		if f == fieldParameters {
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
