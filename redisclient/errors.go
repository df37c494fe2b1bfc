package redisclient

import (
	"bytes"
	"errors"
	"strings"

	"github.com/warmgate/warmgate/lb"
)

// Errors of a call.
var (
	// ErrTimeout means that there was no answer before the deadline. The command may still run.
	ErrTimeout = errors.New("redisclient: no answer in time")
	// ErrUnreachable means that the server could not be reached, or that the connection broke.
	ErrUnreachable = errors.New("redisclient: cannot reach the server")
	// ErrBreakerOpen means that nothing was sent, because the circuit breaker is open.
	ErrBreakerOpen = errors.New("redisclient: the circuit breaker is open")
	// ErrCandidatesLost means that Redis did not have the list of candidates, although it had just been sent.
	ErrCandidatesLost = errors.New("redisclient: Redis lost the list of candidates")
)

// errorAction is what to do after an error reply.
type errorAction uint8

const (
	giveUp   errorAction = iota // the call fails, and the caller falls back
	retry                       // send the command once more
	reload                      // load the script, then send the command once more
	redirect                    // send the command to another node
)

// ReplyError is an error reply of Redis. Only its code is kept, and what was denied: the text may quote the command.
type ReplyError struct {
	Code   string // the first word: NOSCRIPT, OOM, READONLY …
	Login  string // the command of a login that was refused, AUTH or SELECT; "" for another command
	node   string // the target of MOVED and ASK, "" if it cannot be reached
	denied string // what NOPERM quotes, the name of a command; "" for nothing
}

// Error implements error.
func (e *ReplyError) Error() string { return "redisclient: Redis answered with " + e.Code }

// newReplyError parses the text of an error reply. The code is ERR if the first word does not look like one.
func newReplyError(text []byte) *ReplyError {
	e := &ReplyError{Code: "ERR"}
	words := bytes.Fields(text)
	if len(words) > 0 && len(words[0]) <= 24 && strings.Trim(string(words[0]), codeLetters) == "" {
		e.Code = string(words[0])
	}
	if (e.Code == "MOVED" || e.Code == "ASK") && len(words) == 3 {
		e.node = redirectTarget(string(words[2]))
	}
	if e.Code == "ERR" {
		e.Code = codeInScriptError(text)
	}
	for _, w := range words {
		if e.Code == "NOPERM" && w[0] == '\'' && len(w) <= 24 {
			e.denied = string(w)
		}
	}
	return e
}

// redirectTarget returns the node of a redirection as ip:port, or as [ip]:port for IPv6, which Redis writes without
// brackets. It returns "" for a host name, which a gateway cannot resolve, and for an address without a host, which
// Redis sends when it does not know its own address.
func redirectTarget(where string) string {
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

// codeInScriptError returns the code of an error that occurred within a script, ERR if there is none: old servers put
// the script's name in front of it, and some replace it by words.
func codeInScriptError(text []byte) string {
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

// isFullTable reports whether a table has no more rows. Redis works: it is no failure for the circuit breaker, or a
// client that makes up names of tenants would open it.
func isFullTable(err error) bool {
	e, ok := err.(*ReplyError)
	return ok && e.Code == "WGFULL"
}

// isReplica reports whether the server is a replica, which writes nothing.
func isReplica(err error) bool {
	e, ok := err.(*ReplyError)
	return ok && e.Code == "READONLY"
}

// action returns what to do after the error.
func (e *ReplyError) action() errorAction {
	switch e.Code {
	case "NOSCRIPT":
		return reload
	case "MOVED", "ASK":
		return redirect
	case "TRYAGAIN":
		return retry
	}
	return giveUp
}

// causes maps codes to the causes of [Causes].
var causes = map[string]string{
	"OOM": "oom", "READONLY": "readonly", "LOADING": "loading", "BUSY": "busy", "UNKILLABLE": "busy",
	"NOAUTH": "auth", "WRONGPASS": "auth", "NOPERM": "denied", "MOVED": "moved", "ASK": "moved", "TRYAGAIN": "moved",
	"CROSSSLOT": "moved", "CLUSTERDOWN": "cluster_down", "MASTERDOWN": "cluster_down", "NOREPLICAS": "readonly",
	"MISCONF": "readonly", "NOSCRIPT": "script", "WGFULL": "no_room",
}

// BreakerOpen is the cause of failures without an attempt, after others.
const BreakerOpen = "breaker_open"

// Cause returns why a call failed, as one of the words of [Causes].
func Cause(err error) string {
	switch {
	case errors.Is(err, ErrTimeout):
		return "timeout"
	case errors.Is(err, ErrUnreachable):
		return "unreachable"
	case errors.Is(err, ErrBreakerOpen), errors.Is(err, lb.ErrRemoteDown):
		return BreakerOpen
	case errors.Is(err, ErrGarbage), errors.Is(err, ErrIncomplete):
		return "garbage"
	case errors.Is(err, ErrCandidatesLost):
		return "script"
	case errors.Is(err, lb.ErrNoRoom):
		return "no_room"
	}
	if reply, ok := err.(*ReplyError); ok {
		switch cause := causes[reply.Code]; {
		case reply.Login != "" && (cause == "" || cause == "denied"):
			return "auth"
		case cause != "":
			return cause
		}
	}
	return "error"
}

// Detail returns what there is to say about an error beyond its [Cause], "" for nothing. It quotes no command.
//
//go:noinline
func Detail(err error) string {
	e, ok := err.(*ReplyError)
	switch {
	case !ok:
		return ""
	case e.Login != "":
		return e.Login + " was answered with " + e.Code
	}
	return e.denied
}

// Causes returns all words that [Cause] may return. They are values of a metric's label.
func Causes() []string {
	return []string{
		"timeout", "unreachable", BreakerOpen, "garbage", "oom", "readonly", "loading", "busy", "auth", "denied",
		"moved", "cluster_down", "script", "no_room", "error",
	}
}
