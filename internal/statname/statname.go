// Package statname writes and reads the names of statistics that have labels.
//
// Proxy-Wasm knows no labels, so they are part of the name, in front:
// "policy=.=P;.;reason=.=R;.;warmgate_decisions_total". It is the syntax that the bootstraps of Istio and Higress read
// for each tag of extraStatTags, by the expression "(policy=\.=(.*?);\.;)": what its outer group matches is taken out
// of the name, and the inner one is the value of the label.
package statname

import "strings"

const (
	equals = "=.="
	end    = ";.;"
)

// With returns the name of a statistic with labels, names and values by turns. In a value, characters that the syntax
// needs (';' and '=') and control characters are written as '_'. A label without a value is left out: to Prometheus
// that is the same.
func With(stat string, labels ...string) string {
	n := len(stat)
	for i := 0; i < len(labels); i += 2 {
		n += len(labels[i]) + len(equals) + len(labels[i+1]) + len(end)
	}
	var b strings.Builder
	b.Grow(n)
	for i := 0; i < len(labels); i += 2 {
		if labels[i+1] == "" {
			continue
		}
		b.WriteString(labels[i])
		b.WriteString(equals)
		writeValue(&b, labels[i+1])
		b.WriteString(end)
	}
	b.WriteString(stat)
	return b.String()
}

// writeValue writes a label's value, in which nothing may end the label or look like another one.
func writeValue(b *strings.Builder, value string) {
	for i := range len(value) {
		c := value[i]
		if c == ';' || c == '=' || c < ' ' || c == 0x7f {
			c = '_'
		}
		b.WriteByte(c)
	}
}

// Short returns a name, of With or of any other statistic, as tests and tools write it: the labels behind the
// statistic, as in "warmgate_decisions_total;policy=P;reason=R". What Envoy writes in front of a name, such as
// "wasmcustom.", stays in front.
func Short(name string) string {
	i := strings.LastIndex(name, end)
	if i < 0 {
		return name
	}
	labels, stat, prefix := name[:i], name[i+len(end):], ""
	first, _, ok := strings.Cut(labels, equals)
	if !ok {
		return name
	}
	if dot := strings.LastIndexByte(first, '.'); dot >= 0 {
		prefix, labels = labels[:dot+1], labels[dot+1:]
	}
	labels = strings.ReplaceAll(labels, equals, "=")
	return prefix + stat + ";" + strings.ReplaceAll(labels, end, ";")
}

// Parse reads a name, of With or of any other statistic, with what Envoy writes in front of it. The labels are nil if
// there are none.
func Parse(name string) (stat string, labels map[string]string) {
	i := strings.LastIndex(name, end)
	if i < 0 {
		return name[strings.LastIndexByte(name, '.')+1:], nil
	}
	labels = map[string]string{}
	for n, label := range strings.Split(name[:i], end) {
		key, value, _ := strings.Cut(label, equals)
		if n == 0 {
			key = key[strings.LastIndexByte(key, '.')+1:]
		}
		labels[key] = value
	}
	return name[i+len(end):], labels
}
