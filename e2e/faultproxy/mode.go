package faultproxy

import "time"

// Mode is what a proxy does to its connections. The zero value passes everything on, like Pass.
type Mode struct {
	gate          gate
	delay, jitter time.Duration
	bothWays      bool // requests are delayed, too
	drip          time.Duration
	cut           int  // bytes of replies until the connection is closed, 0 meaning never
	replace       bool // each reply, with text
	text          []byte
}

// gate is what the proxy does with a connection as a whole.
type gate int

const (
	open     gate = iota
	mute          // requests are forwarded, replies held back
	stalled       // accepted, nothing forwarded
	vanished      // packets are dropped
	reset         // accepted and reset
	refused       // not accepted
)

// Pass forwards everything unchanged.
func Pass() Mode { return Mode{} }

// Delay forwards replies after d plus a random time of up to jitter, in their order. Like a long wire it limits no
// throughput.
func Delay(d, jitter time.Duration) Mode { return Mode{delay: d, jitter: jitter} }

// Wire forwards requests and replies after d each, as between distant places: a round trip takes 2 d, and connecting,
// which the proxy itself answers, no time. It limits no throughput.
func Wire(d time.Duration) Mode { return Mode{delay: d, bothWays: true} }

// Stall accepts connections and forwards nothing, not even that a peer has closed. What was held back flows on in the
// next mode.
func Stall() Mode { return Mode{gate: stalled} }

// StallReplies forwards requests only: they are carried out. Their replies flow on in the next mode.
func StallReplies() Mode { return Mode{gate: mute} }

// Vanish is a network that swallows what is sent through it: the kernel drops all packets to the proxy, acknowledges
// neither a byte nor a connection, and nothing comes back. It needs no rights, but Linux: elsewhere Set fails. In the
// next mode what is sent again arrives.
func Vanish() Mode { return Mode{gate: vanished} }

// Reset resets all connections (TCP RST), and each new one after it was accepted.
func Reset() Mode { return Mode{gate: reset} }

// Refuse closes all connections and the listener: connections are refused, as when no process has the port.
func Refuse() Mode { return Mode{gate: refused} }

// CutReply closes each connection after n > 0 bytes of replies. Bytes that were forwarded in another mode do not count.
func CutReply(n int) Mode { return Mode{cut: n} }

// Drip forwards replies byte by byte with a pause of d after each.
func Drip(d time.Duration) Mode { return Mode{drip: d} }

// Garbage forwards text in place of each reply. A reply is what arrives in one piece: the answer to one write of the
// client, as long as it is below 32 KiB.
func Garbage(text []byte) Mode { return Mode{replace: true, text: text} }

// LoseReplies forwards requests only: they are carried out, and their replies are dropped.
func LoseReplies() Mode { return Mode{replace: true} }
