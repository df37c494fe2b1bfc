// Package discovery turns what a gateway reports about its endpoints into [lb.Endpoint] values: the text of stock
// Envoy's admin interface, the host list of Higress, and a digest of either that one VM writes and the others read. It
// does no I/O: its input is bytes, and an invalid host in them never hides the others.
package discovery

import (
	"bytes"
	"math"
	"strconv"

	"github.com/warmgate/warmgate/lb"
)

// MaxClustersText is the maximum length of an answer that is parsed, in bytes, enough for 20,000 endpoints: parsing
// blocks a thread of the gateway, and a VM never returns memory.
const MaxClustersText = 16 << 20

// ParseClusters reads the answer of Envoy's admin endpoint /clusters in its text format, and returns the endpoints of
// every cluster, and the circuit breakers that are known. Endpoints have an IP address and a port, or are behind an
// internal listener. A cluster that lists nothing is there with none, which clusters of some types always are. Left out
// are those that list other things only, and those of type ORIGINAL_DST that list what requests have named. The text
// may end anywhere: a last line without its end is ignored.
func ParseClusters(text []byte) (map[string][]lb.Endpoint, map[string]Breaker) {
	clusters, breakers := make(map[string][]lb.Endpoint), make(map[string]Breaker)
	var h host
	for {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			break
		}
		line := text[:end]
		text = text[end+1:]
		if !h.usable || !bytes.HasPrefix(line, h.prefix) {
			prefix := hostPrefix(line)
			if prefix == nil {
				continue
			}
			h.emit(clusters, breakers)
			h.begin(prefix)
		}
		if h.limits {
			limitOf(h.cluster, line[len(h.prefix):], breakers)
		}
		if h.usable {
			h.line(line[len(h.prefix):])
		} else if bytes.HasPrefix(line[len(h.prefix):], healthFlags) {
			h.other = true
		}
	}
	h.emit(clusters, breakers)
	return clusters, breakers
}

// host is the endpoint whose lines are being read.
type host struct {
	prefix  []byte // of its lines: "cluster::ip:port::"
	cluster string
	usable  bool // isAddress holds for its address
	other   bool // it is a host all the same, such as the path of a socket
	limits  bool // no host: the limits of the cluster for requests of default priority
	known   bool // its health was seen
	passing bool // a server of an ORIGINAL_DST cluster: see named

	state    lb.State
	priority uint8
	weight   float64
	active   int64 // requests at the host
	zone     lb.Zone
	last     lb.Zone // of the previous host: most are in few zones, so that texts are shared
}

func (h *host) begin(prefix []byte) {
	cluster, addr := splitPrefix(prefix)
	if string(cluster) != h.cluster {
		h.cluster = string(cluster)
	}
	*h = host{
		prefix: prefix, cluster: h.cluster, usable: isAddress(addr), limits: string(addr) == "default_priority",
		weight: 1, last: h.zone,
	}
}

// line parses "name::value". The first bytes of names are compared first, since most lines are not needed.
func (h *host) line(s []byte) {
	switch {
	case len(s) < 4:
	case s[0] == 'h':
		if v, ok := bytes.CutPrefix(s, healthFlags); ok {
			h.state, h.known = stateOf(v), true
		} else if v, ok := bytes.CutPrefix(s, []byte("hostname::")); ok && h.named(v) {
			h.passing = true
		}
	case s[0] == 'w':
		if v, ok := bytes.CutPrefix(s, []byte("weight::")); ok {
			if n, ok := decimal(v); ok && n > 0 {
				h.weight = float64(n)
			}
		}
	case s[0] == 'p':
		if v, ok := bytes.CutPrefix(s, []byte("priority::")); ok {
			if n, ok := decimal(v); ok {
				h.priority = uint8(min(n, math.MaxUint8)) // Envoy has 128
			}
		}
	case s[0] == 'r' && s[1] == 'q':
		if v, ok := bytes.CutPrefix(s, []byte("rq_active::")); ok {
			if n, ok := decimal(v); ok {
				h.active = n
			}
		}
	case s[0] == 'r' && s[2] == 'g':
		if v, ok := bytes.CutPrefix(s, []byte("region::")); ok {
			h.zone.Region = same(v, h.last.Region)
		}
	case s[0] == 'z':
		if v, ok := bytes.CutPrefix(s, []byte("zone::")); ok {
			h.zone.Name = same(v, h.last.Name)
		}
	}
}

// named reports whether a host of that name belongs to an ORIGINAL_DST cluster: Envoy lists the servers that requests
// have recently named. They are no endpoints to choose from, since each request names its own.
func (h *host) named(hostname []byte) bool {
	_, addr := splitPrefix(h.prefix)
	name, ok := bytes.CutSuffix(hostname, addr)
	return ok && string(name) == h.cluster
}

// emit adds a host whose lines included its health: without that it is not known to be usable. The limits of a cluster
// come before its hosts: until one of these comes it has none.
func (h *host) emit(clusters map[string][]lb.Endpoint, breakers map[string]Breaker) {
	if b, ok := breakers[h.cluster]; ok && h.active > 0 {
		b.Active = min(b.Active+min(h.active, maxActive), maxActive)
		breakers[h.cluster] = b
	}
	list, isListed := clusters[h.cluster]
	switch {
	case h.limits && !isListed:
		clusters[h.cluster] = nil
	case h.usable && h.known && !h.passing:
		_, addr := splitPrefix(h.prefix)
		e := lb.Endpoint{Addr: string(addr), Weight: h.weight, State: h.state, Priority: h.priority, Zone: h.zone}
		clusters[h.cluster] = append(list, e)
	case (h.usable || h.other) && len(list) == 0:
		delete(clusters, h.cluster)
	}
}

// same returns the text; if it equals the last one, it returns that, so that they share memory.
func same(text []byte, last string) string {
	if string(text) == last {
		return last
	}
	return string(text)
}

var separator, healthFlags = []byte("::"), []byte("health_flags::")

// hostPrefix returns the part of a line before "name::value", or nil if the line has another form. The cluster's name
// may contain separators, and so may the address behind it (IPv6); the name of a statistic may not. Its value may (a
// host name), but only in lines that follow others of the same host, which share their prefix.
func hostPrefix(line []byte) []byte {
	value := bytes.LastIndex(line, separator)
	if value < 0 {
		return nil
	}
	name := bytes.LastIndex(line[:value], separator)
	if name < 0 {
		return nil
	}
	return line[:name+len(separator)]
}

// splitPrefix splits "cluster::address::".
func splitPrefix(prefix []byte) (cluster, addr []byte) {
	prefix = bytes.TrimSuffix(prefix, separator)
	at := bytes.LastIndex(prefix, []byte("::["))
	if inside := bytes.LastIndex(prefix, []byte("::"+internal)); inside >= 0 {
		at = inside
	} else if at < 0 || bytes.IndexByte(prefix[at:], ']') < 0 {
		at = bytes.LastIndex(prefix, separator)
	}
	if at < 0 {
		return prefix, nil
	}
	return prefix[:at], prefix[at+len(separator):]
}

// internal begins the address of an endpoint behind an internal listener, as the servers of an ambient mesh have.
const internal = "envoy://"

// isAddress reports whether s is "ip:port" or "envoy://listener/id", and not the path of a socket or another word.
// Without an id, endpoints behind one listener have the same address; and a comma would divide an id in the list for
// retries.
func isAddress(s []byte) bool {
	if inside, ok := bytes.CutPrefix(s, []byte(internal)); ok {
		slash := bytes.LastIndexByte(inside, '/')
		return slash > 0 && slash+1 < len(inside) && bytes.IndexByte(inside, ',') < 0
	}
	colon := bytes.LastIndexByte(s, ':')
	if colon < len("[::]") {
		return false
	}
	if n, ok := decimal(s[colon+1:]); !ok || n == 0 || n > 65535 {
		return false
	}
	ip := s[:colon]
	if ip[0] == '[' {
		return ip[len(ip)-1] == ']' && bytes.Contains(ip, []byte(":"))
	}
	for _, c := range ip {
		if c != '.' && (c < '0' || c > '9') {
			return false
		}
	}
	return bytes.Count(ip, []byte(".")) == 3
}

// decimal parses a count.
func decimal(s []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(s), 10, 64)
	return n, err == nil && n >= 0
}
