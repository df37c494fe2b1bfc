package lb

import "strconv"

// A server with data parallelism has several engines behind one address, its ranks. Where ranks are told apart, each is
// an endpoint of its own, with the server's address, "#" and its number: 10.0.0.1:8000#2. So load, prompts, metrics and
// what is learned are a rank's. What the server as a whole is or does is its address's: see ServerOf.

// MaxRanks is how many ranks of a server there are at most.
const MaxRanks = 64

// RankAddr returns the address of a rank of a server.
func RankAddr(server string, rank int) string { return server + "#" + strconv.Itoa(rank) }

// ServerOf returns the address of the server whose rank an endpoint is, of others the address as it is. Inlined at its
// many callers it would make the artifacts larger.
//
//go:noinline
func ServerOf(addr string) string {
	if at, _ := cutRank(addr); at >= 0 {
		return addr[:at]
	}
	return addr
}

// RankOf returns which rank of its server an endpoint is, and whether it is one.
func RankOf(addr string) (rank int, is bool) {
	at, rank := cutRank(addr)
	return rank, at >= 0
}

// cutRank returns where the number of the rank begins, with its "#", and the number; -1 if there is none. Names of
// clusters have no port in front of it.
func cutRank(addr string) (at, rank int) {
	at = len(addr) - 2
	if at > 0 && addr[at] != '#' {
		at--
	}
	if at <= 0 || addr[at] != '#' || !isDigit(addr[at-1]) {
		return -1, 0
	}
	for _, c := range []byte(addr[at+1:]) {
		if !isDigit(c) {
			return -1, 0
		}
		rank = 10*rank + int(c-'0')
	}
	if len(addr)-at == 3 && addr[at+1] == '0' || rank >= MaxRanks {
		return -1, 0
	}
	port := at - 1
	for port > 0 && isDigit(addr[port-1]) {
		port--
	}
	if port == 0 || addr[port-1] != ':' {
		return -1, 0
	}
	return at, rank
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
