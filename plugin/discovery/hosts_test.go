package discovery

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb"
)

// pairMap encodes pairs as Proxy-Wasm does.
func pairMap(pairs ...string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(pairs)/2))
	for _, s := range pairs {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	}
	for _, s := range pairs {
		b = append(append(b, s...), 0)
	}
	return b
}

func TestParseHosts(t *testing.T) {
	const healthy = `{"health_status":"Healthy","metrics":""}`
	tests := []struct {
		name  string
		pairs []string
		want  string
	}{
		{"none", nil, "[]"},
		{
			"two",
			[]string{"10.0.0.1:80", healthy, "[::1]:80", `{"health_status":"Unhealthy"}`},
			"[{10.0.0.1:80 1 healthy} {[::1]:80 1 unhealthy}]",
		},
		{
			"bad address between",
			[]string{"10.0.0.1:80", healthy, "/run/x.sock", healthy, "", healthy, "10.0.0.2:80", healthy},
			"[{10.0.0.1:80 1 healthy} {10.0.0.2:80 1 healthy}]",
		},
		{
			"bad object between",
			[]string{"10.0.0.1:80", "{", "10.0.0.2:80", healthy},
			"[{10.0.0.1:80 1 unhealthy} {10.0.0.2:80 1 healthy}]",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseHosts(pairMap(tt.pairs...))
			if err != nil || shown(got) != tt.want {
				t.Errorf("got %v, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestParseHostsBroken(t *testing.T) {
	good := pairMap("10.0.0.1:80", "{}", "10.0.0.2:80", "{}")
	for end := range good {
		if got, err := ParseHosts(good[:end]); !errors.Is(err, ErrHosts) {
			t.Errorf("first %d bytes: got %v, %v", end, got, err)
		}
	}
	for name, change := range map[string]func(b []byte){
		"count":      func(b []byte) { b[3] = 0xff },
		"key size":   func(b []byte) { b[7] = 0xff },
		"value size": func(b []byte) { b[11] = 0xff },
		"terminator": func(b []byte) { b[4+16+11] = 'x' },
	} {
		b := append([]byte{}, good...)
		change(b)
		if got, err := ParseHosts(b); !errors.Is(err, ErrHosts) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestHostState(t *testing.T) {
	for info, want := range map[string]lb.State{
		`{"health_status":"Healthy"}`:       lb.Healthy,
		` { "health_status" : "Healthy" } `: lb.Healthy,
		`{"health_status":"HEALTHY"}`:       lb.Healthy,
		`{"health_status":"Degraded"}`:      lb.Degraded,
		`{"health_status":"Draining"}`:      lb.Draining,
		`{"health_status":"Unhealthy"}`:     lb.Unhealthy,
		`{"health_status":"Timeout"}`:       lb.Unhealthy,
		`{"health_status":""}`:              lb.Unhealthy,
		`{"health_status":true}`:            lb.Unhealthy,
		`{"health_status":`:                 lb.Unhealthy,
		`{"health_status":"Healthy`:         lb.Unhealthy,
		`{"health_status"`:                  lb.Unhealthy,
		`{}`:                                lb.Unhealthy,
		``:                                  lb.Unhealthy,
		`null`:                              lb.Unhealthy,
		`{"weight":2,"metrics":"","health_status":"Healthy"}`:                     lb.Healthy,
		`{"metrics":"a{b=\"health_status\"} 1\n","health_status":"Healthy"}`:      lb.Healthy,
		`{"metrics":"\"health_status\":\"Healthy\"","health_status":"Unhealthy"}`: lb.Unhealthy,
		`{"metrics":"x\\","health_status":"Healthy"}`:                             lb.Healthy,
		`{"metrics":"\\\"","health_status":"Healthy"}`:                            lb.Healthy,
		`{"other":"health_status","health_status":"Healthy"}`:                     lb.Healthy,
	} {
		if got := HostState([]byte(info)); got != want {
			t.Errorf("%s: got %v, want %v", info, got, want)
		}
	}
}

// hostList returns n hosts with the metrics text in front of their state, where it costs most.
func hostList(n, metrics int) []byte {
	line := `vllm:num_requests_running{engine=\"0\",model_name=\"llama\"} 1.0\n`
	text := strings.Repeat(line, metrics/len(line))
	var pairs []string
	for i := range n {
		pairs = append(pairs, fmt.Sprintf("10.0.0.%d:8000", i+1), `{"metrics":"`+text+`","health_status":"Healthy"}`)
	}
	return pairMap(pairs...)
}

func BenchmarkParseHosts(b *testing.B) {
	for _, metrics := range []int{0, 62 << 10} {
		raw := hostList(64, metrics)
		b.Run(fmt.Sprintf("64hosts-%dKiB", metrics>>10), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseHosts(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzParseHosts checks that ParseHosts never panics, and that a list has no more hosts than its header announces.
func FuzzParseHosts(f *testing.F) {
	f.Add(pairMap("10.0.0.1:80", `{"health_status":"Healthy","metrics":"\"x\""}`, "[::1]:80", `{}`))
	f.Add(hostList(2, 300))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		endpoints, err := ParseHosts(raw)
		if err != nil {
			if endpoints != nil {
				t.Fatalf("%q: %v with %v", raw, err, endpoints)
			}
			return
		}
		if len(endpoints) > int(binary.LittleEndian.Uint32(raw)) {
			t.Fatalf("%q: %d hosts", raw, len(endpoints))
		}
		for _, e := range endpoints {
			if !isAddress([]byte(e.Addr)) || e.Weight != 1 {
				t.Fatalf("%q: %+v", raw, e)
			}
		}
	})
}

// TestParsePages reads what health checks have stored, as Higress writes it: a JSON string, whatever is in it.
func TestParsePages(t *testing.T) {
	pages := map[string]string{
		"10.0.0.1:80": "vllm:num_requests_running{model=\"a\\\\b\"} 3\n# \ttab\r\n", "10.0.0.2:80": "",
		"10.0.0.3:80": "<html>\x00é\u2028</html>",
	}
	var raw []byte
	var infos []string
	for _, addr := range []string{"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"} {
		page, err := json.Marshal(pages[addr]) // which escapes angle brackets and U+2028 as \u003c and \u2028
		if err != nil {
			t.Fatal(err)
		}
		infos = append(infos, addr, `{"health_status":"Healthy","metrics":`+string(page)+`}`)
	}
	raw = binary.LittleEndian.AppendUint32(raw, uint32(len(infos)/2))
	for _, s := range infos {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(len(s)))
	}
	for _, s := range infos {
		raw = append(append(raw, s...), 0)
	}
	got := map[string]string{}
	endpoints, err := ParsePages(raw, func(addr string, text []byte) { got[addr] = string(text) })
	if err != nil || len(endpoints) != 3 {
		t.Fatalf("%v, %v", endpoints, err)
	}
	if !maps.Equal(got, pages) {
		t.Errorf("got %q, want %q", got, pages)
	}
}

// TestParsePagesWithEscapes reads a page all of whose characters are escaped, in either case of hexadecimal digits.
func TestParsePagesWithEscapes(t *testing.T) {
	var want []byte
	var lower, upper strings.Builder
	for c := byte(0); c <= '~'; c++ {
		want = append(want, c)
		fmt.Fprintf(&lower, `\u%04x`, c)
		fmt.Fprintf(&upper, `\u%04X`, c)
	}
	for _, page := range []string{lower.String(), upper.String()} {
		raw := pairMap("10.0.0.1:80", `{"metrics":"`+page+`"}`)
		_, err := ParsePages(raw, func(_ string, text []byte) {
			if string(text) != string(want) {
				t.Errorf("%s becomes %q", page, text)
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
}
