package observability

import "strings"

func (p *prometheus) dump(exprs ...string) {
	for _, e := range exprs {
		for _, s := range p.query(e) {
			p.t.Logf("%s: %v %v", e, strings.ReplaceAll(strings.TrimPrefix(
				strings.ReplaceAll(strings.Join(flat(s.Metric), " "), "127.0.0.1:", ":"), "map"), "job=gateway", ""), s.Value[1])
		}
	}
}

func flat(m map[string]string) (l []string) {
	for k, v := range m {
		if k != "instance" && k != "job" {
			l = append(l, k+"="+v)
		}
	}
	return
}
