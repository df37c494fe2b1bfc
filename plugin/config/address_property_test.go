package config

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawGroups draws the groups of an IPv6 address, many of them 0.
func drawGroups(rt *rapid.T) (groups [8]uint16) {
	for i := range groups {
		if rapid.Bool().Draw(rt, "not zero") {
			groups[i] = rapid.Uint16().Draw(rt, "group")
		}
	}
	return groups
}

func addrOf(groups [8]uint16) netip.Addr {
	var raw [16]byte
	for i, g := range groups {
		raw[2*i], raw[2*i+1] = byte(g>>8), byte(g)
	}
	return netip.AddrFrom16(raw)
}

// drawSpelling writes an IPv6 address in one of the forms of RFC 4291: letters in any case, zeros in front, one run of
// zero groups left out, the last 32 bits as an IPv4 address.
func drawSpelling(rt *rapid.T, groups [8]uint16) string {
	words := make([]string, 0, 8)
	for _, g := range groups {
		format := rapid.SampledFrom([]string{"%x", "%X", "%04x"}).Draw(rt, "format")
		words = append(words, fmt.Sprintf(format, g))
	}
	n := 8
	if rapid.Bool().Draw(rt, "ends as IPv4") {
		a := addrOf(groups).As16()
		words = append(words[:6], fmt.Sprintf("%d.%d.%d.%d", a[12], a[13], a[14], a[15]))
		n = 6
	}
	from := rapid.IntRange(0, n-1).Draw(rt, "gap")
	to := from
	for to < n && groups[to] == 0 {
		to++
	}
	if to == from || rapid.IntRange(0, 3).Draw(rt, "no gap") == 0 {
		return strings.Join(words, ":")
	}
	return strings.Join(words[:from], ":") + "::" + strings.Join(words[to:], ":")
}

// Each spelling of an address is accepted and brought to the one of RFC 5952, so that it equals the gateway's.
func TestSpellingsOfAddresses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		groups, port := drawGroups(rt), rapid.IntRange(1, 65535).Draw(rt, "port")
		written := "[" + drawSpelling(rt, groups) + "]:" + strconv.Itoa(port)
		want := netip.AddrPortFrom(addrOf(groups), uint16(port)).String()
		got, ok := canonicalAddress(written)
		if !ok || got != want {
			rt.Fatalf("%s: %q, %v, want %s", written, got, ok, want)
		}
		if again, ok := canonicalAddress(got); !ok || again != got {
			rt.Fatalf("%s: again %q, %v", got, again, ok)
		}
	})
}

// An IPv4 address has one spelling: four numbers without zeros in front.
func TestSpellingsOfIPv4(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var raw [4]byte
		for i := range raw {
			raw[i] = rapid.Byte().Draw(rt, "byte")
		}
		addr := netip.AddrFrom4(raw).String() + ":80"
		if got, ok := canonicalAddress(addr); !ok || got != addr {
			rt.Fatalf("%s: %q, %v", addr, got, ok)
		}
		for _, bad := range []string{"0" + addr, " " + addr, addr + " ", "+" + addr, addr[:len(addr)-3] + ".1:80"} {
			if got, ok := canonicalAddress(bad); ok {
				rt.Fatalf("%s is accepted as %s", bad, got)
			}
		}
	})
}

// Two clients are of one network exactly if their IPv4 addresses are equal, or the first 64 bits of their IPv6
// addresses. The port does not count.
func TestNetwork(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := drawGroups(rt), drawGroups(rt)
		shared := rapid.IntRange(0, 8).Draw(rt, "shared groups")
		copy(b[:shared], a[:shared])
		name := func(groups [8]uint16) string {
			port := rapid.IntRange(1, 65535).Draw(rt, "port")
			return Network("[" + drawSpelling(rt, groups) + "]:" + strconv.Itoa(port))
		}
		if same := [4]uint16(a[:4]) == [4]uint16(b[:4]); same != (name(a) == name(b)) {
			rt.Fatalf("%s and %s are of %q and %q", addrOf(a), addrOf(b), name(a), name(b))
		}
	})
	for addr, want := range map[string]string{
		"10.1.2.3:50000": "10.1.2.3", "10.1.2.3": "10.1.2.3", "[2001:db8:1:2:3:4:5:6]:443": "2001:db8:1:2::",
		"[2001:DB8:1:2::]:443": "2001:db8:1:2::", "[::1]:80": "::", "": "", "internal": "internal",
		"[no address]:80": "[no address]:80", "/var/run/socket": "/var/run/socket",
	} {
		if got := Network(addr); got != want {
			t.Errorf("%q: %q, want %q", addr, got, want)
		}
	}
}

// A weight belongs to the endpoint whose address is meant, however it is spelled.
func TestWeightsOfOtherSpellings(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		groups := drawGroups(rt)
		text := fmt.Sprintf(`{"lb_policy":"global_least_request","lb_config":{"weights":{"[%s]:80":2.5}}}`,
			drawSpelling(rt, groups))
		c := mustParse(rt, []byte(text), Higress)
		if got := c.Weights[netip.AddrPortFrom(addrOf(groups), 80).String()]; got != 2.5 || len(c.Weights) != 1 {
			rt.Fatalf("%s: %v", text, c.Weights)
		}
	})
}
