// Package setting describes the keys of a configuration: what a key accepts, what it means in English and in Chinese,
// and where its value is stored. The parser, the tables of the documentation and the form of Higress's console follow
// from these descriptions.
package setting

import (
	"strconv"
)

// Type is what a key accepts.
type Type uint8

// The types of keys, with the type that [Key.Field] must point to.
const (
	Boolean  Type = iota // true or false: bool
	Integer              // a whole number: int
	Seconds              // a whole number of seconds: time.Duration
	Number               // a number: float64
	Duration             // a number of milliseconds, or a string with a unit such as "20ms": time.Duration
	Size                 // a number of bytes, or a string with a unit such as "256KiB": int
	Text                 // a string that is not empty: string
	Secret               // a string that no message repeats; it may be empty unless it is Required: string
	Choice               // one of [Key.Choices]: string, or a type with the method UnmarshalText
	Object               // an object that its owner parses
	Array                // a list that its owner parses
)

var typeNames = [...]Words{
	Boolean:  {"boolean", "布尔"},
	Integer:  {"integer", "整数"},
	Seconds:  {"integer", "整数"},
	Number:   {"number", "数字"},
	Duration: {"duration (number: ms)", "时长（数字：毫秒）"},
	Size:     {"size (number: bytes)", "大小（数字：字节）"},
	Text:     {"string", "字符串"},
	Secret:   {"string", "字符串"},
	Choice:   {"string", "字符串"},
	Object:   {"object", "对象"},
	Array:    {"array", "数组"},
}

// Words is a text of the documentation in its two languages. It is made by [Doc], and empty in the artifacts.
type Words struct{ EN, ZH string }

// Key describes one key.
type Key struct {
	Name     string // with dots between sections, such as "health.slow_start"
	Type     Type
	Min, Max float64  // bounds of a number, both included; a Duration's in milliseconds, a Size's in bytes
	OrZero   bool     // of a Number: 0 is accepted as well, whatever Min is
	Choices  []string // the values of a Choice
	Default  string   // JSON text; "" for none
	Title    Words    // heading in Higress's console; empty for a key that has no effect there
	Meaning  Words    // one sentence, in Markdown

	// Of are the members of each entry of an Object or an Array; nil: an entry is a number, of an Array a text, or what
	// Entry says.
	Of []Key
	// ZeroIsDefault is for a whole number: 0, and what is below, stands for the default.
	ZeroIsDefault bool
	// Entries is how many entries an Object has at most whose Field is an [EntryMap].
	Entries int
	// Required is for a member of an entry that has to be written.
	Required bool
	// Entry is what an entry of an Object or of an Array is, where that is neither a number nor described by Of: the
	// name of a JSON type, or "any".
	Entry string

	// Loose is for keys of Higress's ai-load-balancer: they accept what that accepts, by the rules of gjson. A value
	// out of bounds counts as the nearest bound.
	Loose bool
	// Exact is for a Loose key that identifies something: a value out of bounds is an error.
	Exact bool
	// Millis is for a Loose Integer that counts milliseconds. Like Loose Seconds, it may be a text with a unit: "30s".
	Millis bool
	// NoEffect is why the key never has an effect, "" for all others.
	NoEffect string

	// Field returns a pointer to the place of the value in the settings, whose type is the key's owner's:
	//
	//	func(s any) any { return &s.(*Settings).SlowStart }
	Field func(settings any) any
}

// EntryMap is what the [Key.Field] of an Object with [Key.Of] may point to: the parser decodes its entries, which are
// objects. Names of entries are those of endpoints or clusters; an address is in the form in which gateways write it.
type EntryMap interface {
	// Entry adds an entry and returns the settings that its members are decoded into.
	Entry(name string) (settings any)
}

// MaxText is the maximum length of a Text or a Secret, in bytes. The owner of a key that decodes a Text itself may
// accept less, and says so in [Key.Max].
const MaxText = 1024

// Section describes a section of keys.
type Section struct {
	Name           string // as in Key.Name, without a dot at the end
	Title, Meaning Words
}

// Nowhere is the [Key.Field] of an Integer whose value is checked and not used.
func Nowhere(any) any { return new(int) }

// Least returns the smallest number that is accepted.
func (k *Key) Least() float64 {
	if k.OrZero {
		return min(k.Min, 0)
	}
	return k.Min
}

// TypeName returns the name of the key's type.
func (k *Key) TypeName() Words {
	if k.Type == Number && k.Loose {
		return Words{"number or string", "数字或字符串"}
	}
	return typeNames[k.Type]
}

// Units of the bounds of a Duration, in milliseconds.
const (
	Second = 1000
	Minute = 60 * Second
	Hour   = 60 * Minute
)

// Report receives what is found when keys are compared with each other. Keys have their names as in [Key.Name].
type Report interface {
	// Written reports whether the configuration contains the key, with a valid value or not.
	Written(key string) bool
	// Problem reports an error: the configuration is refused.
	Problem(key, problem string)
	// Warning reports something that is accepted, but has another meaning than it seems to have.
	Warning(key, problem string)
}

// maxQuoted is how many bytes of a text a message repeats.
const maxQuoted = 64

// Clip shortens a text for a message.
func Clip(s string) string {
	if len(s) > maxQuoted {
		return s[:maxQuoted] + "..."
	}
	return s
}

// Quote shortens a text for a message, and puts it in quotes.
func Quote(s string) string { return strconv.Quote(Clip(s)) }
