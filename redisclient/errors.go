package redisclient

import (
	"bytes"
	"errors"
	"strings"

	"github.com/warmgate/warmgate/lb"
)

// Errors of a call.
var (
	// ErrTimeout says that there was no answer within the time limit. The command may still be carried out.
	ErrTimeout = errors.New("redisclient: no answer in time")
	// ErrUnreachable says that the server could not be reached, or the connection broke.
	ErrUnreachable = errors.New("redisclient: cannot reach the server")
	// ErrOpen says that the breaker is open: nothing was sent.
	ErrOpen = errors.New("redisclient: the breaker is open")
	// ErrUnopened says that Redis lost a list of candidates twice in a row.
	ErrUnopened = errors.New("redisclient: the candidates are not known")
)

// class says what to do about an error that Redis answered with.
type class uint8

const (
	giveUp class = iota // nothing: the caller falls back
	retry               // the same command, once more
	reload              // make the script known, then the same command
	move                // the same command at another node
)

// ReplyError is an error that Redis answered with. Its text is not shown as it is: it may quote the command.
type ReplyError struct {
	Code string // the first word: NOSCRIPT, OOM, READONLY …
	node string // of MOVED and ASK, if it can be reached by that
}

// Error implements error.
func (e *ReplyError) Error() string { return "redisclient: Redis answered with " + e.Code }

// newReplyError reads the text of an error reply. The first word is kept if it looks like a code.
func newReplyError(text []byte) *ReplyError {
	e := &ReplyError{Code: "ERR"}
	words := bytes.Fields(text)
	if len(words) > 0 && len(words[0]) <= 24 && strings.Trim(string(words[0]), codeLetters) == "" {
		e.Code = string(words[0])
	}
	if (e.Code == "MOVED" || e.Code == "ASK") && len(words) == 3 {
		e.node = nodeAt(string(words[2]))
	}
	if e.Code == "ERR" {
		e.Code = codeWithin(text)
	}
	return e
}

// nodeAt returns the node of a redirection as ip:port, or [ip]:port for IPv6, which Redis writes without brackets. It returns
// "" for a name, which a gateway could not resolve, and for an address without a host, which Redis leaves out when it does
// not know its own.
func nodeAt(where string) string {
	colon := max(0, strings.LastIndexByte(where, ':'))
	ip, port := where[:colon], where[colon:]
	switch {
	case len(port) < 2 || strings.Trim(port[1:], "0123456789") != "":
		return ""
	case strings.Contains(ip, ".") && strings.Trim(ip, "0123456789.") == "":
		return where
	case strings.Contains(ip, ":") && strings.Trim(ip, "0123456789abcdefABCDEF:.") == "":
		return "[" + ip + "]" + port
	}
	return ""
}

const codeLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// codeWithin finds the code in an error of a script: old servers put the script's name before it, and some put words in
// its place.
func codeWithin(text []byte) string {
	for _, code := range []string{"OOM", "READONLY", "NOPERM", "MISCONF", "NOREPLICAS"} {
		if bytes.Contains(text, []byte("-"+code+" ")) || bytes.Contains(text, []byte(": "+code+" ")) {
			return code
		}
	}
	for _, denial := range []string{"ACL failure in script", "The user executing the script can't"} {
		if bytes.Contains(text, []byte(denial)) {
			return "NOPERM"
		}
	}
	return "ERR"
}

func (e *ReplyError) class() class {
	switch e.Code {
	case "NOSCRIPT":
		return reload
	case "MOVED", "ASK":
		return move
	case "TRYAGAIN":
		return retry
	}
	return giveUp
}

// causes maps codes to what statistics call them.
var causes = map[string]string{
	"OOM": "oom", "READONLY": "readonly", "LOADING": "loading", "BUSY": "busy", "UNKILLABLE": "busy",
	"NOAUTH": "auth", "WRONGPASS": "auth", "NOPERM": "denied", "MOVED": "moved", "ASK": "moved", "TRYAGAIN": "moved",
	"CROSSSLOT": "moved", "CLUSTERDOWN": "cluster_down", "MASTERDOWN": "cluster_down", "NOREPLICAS": "readonly",
	"MISCONF": "readonly", "NOSCRIPT": "script", "WGFULL": "no_room",
}

// Cause returns one word that says why a call failed, out of [Causes].
func Cause(err error) string {
	switch {
	case errors.Is(err, ErrTimeout):
		return "timeout"
	case errors.Is(err, ErrUnreachable):
		return "unreachable"
	case errors.Is(err, ErrOpen), errors.Is(err, lb.ErrRemoteDown):
		return "breaker_open"
	case errors.Is(err, ErrGarbage), errors.Is(err, ErrShort):
		return "garbage"
	case errors.Is(err, ErrUnopened):
		return "script"
	case errors.Is(err, lb.ErrNoRoom):
		return "no_room"
	}
	if reply, ok := err.(*ReplyError); ok && causes[reply.Code] != "" {
		return causes[reply.Code]
	}
	return "error"
}

// Causes returns every word that [Cause] may return.
func Causes() []string {
	return []string{
		"timeout", "unreachable", "breaker_open", "garbage", "oom", "readonly", "loading", "busy", "auth", "denied",
		"moved", "cluster_down", "script", "no_room", "error",
	}
}
