package config

import (
	"strconv"
	"strings"
)

// canonicalAddress checks "ip:port" and returns it the way the gateway writes it, so that addresses compare as strings:
// IPv6 in brackets, in the short lower-case form of RFC 5952. It replaces net/netip, which would add 150 KB to the
// module.
func canonicalAddress(s string) (string, bool) {
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 {
		return "", false
	}
	host, port := s[:colon], s[colon+1:]
	n, ok := decimal(port, 65535)
	if !ok || n == 0 {
		return "", false
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if !ok {
			return "", false
		}
		groups, ok := parseIPv6(inner)
		if !ok {
			return "", false
		}
		return "[" + formatIPv6(groups) + "]:" + port, true
	}
	if _, ok := parseIPv4(host); !ok {
		return "", false
	}
	return strings.Clone(s), true
}

// Network returns the part of "ip:port" that identifies a client: the IPv4 address, or the first 64 bits of the IPv6
// address, since a single client typically has all addresses with them. Any other text is returned unchanged.
func Network(addr string) string {
	host := addr
	if colon := strings.LastIndexByte(addr, ':'); colon >= 0 {
		host = addr[:colon]
	}
	inner, ok := strings.CutPrefix(host, "[")
	if !ok {
		return host
	}
	groups, ok := parseIPv6(strings.TrimSuffix(inner, "]"))
	if !ok {
		return addr
	}
	clear(groups[4:])
	return formatIPv6(groups)
}

// decimal parses a number without sign or leading zeros.
func decimal(s string, limit uint64) (uint64, bool) {
	if s == "" || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && n <= limit
}

// parseIPv4 returns the address as two groups of 16 bits.
func parseIPv4(s string) ([2]uint16, bool) {
	var groups [2]uint16
	for i := range 4 {
		part, rest, dot := strings.Cut(s, ".")
		n, ok := decimal(part, 255)
		if !ok || dot != (i < 3) {
			return groups, false
		}
		groups[i/2] = groups[i/2]<<8 | uint16(n)
		s = rest
	}
	return groups, true
}

// parseIPv6 accepts every textual form of RFC 4291, without a zone.
func parseIPv6(s string) ([8]uint16, bool) {
	head, tail, gap := strings.Cut(s, "::")
	first, n, ok := ipv6Groups(head, !gap)
	if !ok {
		return first, false
	}
	if !gap {
		return first, n == 8
	}
	last, m, ok := ipv6Groups(tail, true)
	if !ok || n+m > 7 {
		return first, false
	}
	copy(first[8-m:], last[:m])
	return first, true
}

// ipv6Groups parses groups that are separated by single colons, the last of which may be an IPv4 address.
func ipv6Groups(s string, ipv4 bool) (groups [8]uint16, n int, ok bool) {
	for s != "" {
		part, rest, colon := strings.Cut(s, ":")
		if colon && rest == "" {
			return groups, n, false
		}
		if ipv4 && !colon && strings.Contains(part, ".") {
			pair, ok := parseIPv4(part)
			if !ok || n > 6 {
				return groups, n, false
			}
			groups[n], groups[n+1] = pair[0], pair[1]
			return groups, n + 2, true
		}
		g, err := strconv.ParseUint(part, 16, 16)
		if err != nil || len(part) > 4 || n == 8 {
			return groups, n, false
		}
		groups[n] = uint16(g)
		n++
		s = rest
	}
	return groups, n, true
}

// formatIPv6 shortens the longest run of at least two zero groups, the first of equals.
func formatIPv6(groups [8]uint16) string {
	from, to := -1, -1
	for i := 0; i < 8; i++ {
		j := i
		for j < 8 && groups[j] == 0 {
			j++
		}
		if j-i >= 2 && j-i > to-from {
			from, to = i, j
		}
		i = j
	}
	var b []byte
	for i := 0; i < 8; i++ {
		if i == from {
			b = append(b, ':', ':')
			if i = to; i == 8 {
				break
			}
		} else if i > 0 {
			b = append(b, ':')
		}
		if i == 6 && from == 0 && to == 5 && groups[5] == 0xffff {
			return string(appendIPv4(b, groups[6], groups[7])) // an IPv4 address inside IPv6 keeps its dots
		}
		b = strconv.AppendUint(b, uint64(groups[i]), 16)
	}
	return string(b)
}

func appendIPv4(b []byte, high, low uint16) []byte {
	for i, n := range [...]uint16{high >> 8, high & 255, low >> 8, low & 255} {
		if i > 0 {
			b = append(b, '.')
		}
		b = strconv.AppendUint(b, uint64(n), 10)
	}
	return b
}
