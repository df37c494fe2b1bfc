package config

import (
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/lb/setting"
)

const (
	maxCallers  = 64
	wantCallers = `, want an object with 1 to 64 callers like {"batch": {"token": "…", "share": 0.5}}`
)

// callerKeys are the members of a caller.
var callerKeys = []setting.Key{
	{
		Name: "token", Type: setting.Secret, Required: true,
		Field: func(s any) any { return (*string)(&s.(*Caller).Token) },
	},
	{
		Name: "share", Type: setting.Number, Min: 0.01, Max: 1, Default: "1",
		Field: func(s any) any { return &s.(*Caller).Share },
	},
	{Name: "class", Type: setting.Text, Max: maxClassName, Field: func(s any) any { return &s.(*Caller).Class }},
	{
		Name: "sets_limits", Type: setting.Boolean, Default: "false",
		Field: func(s any) any { return &s.(*Caller).SetsLimits },
	},
}

// setCallers reads {"name": {"token": "…", "share": 0.5, "class": "batch"}}.
func setCallers(p *parser, c *Config, at string, v value) {
	if v.kind != kindObject || len(v.names) == 0 || len(v.names) > maxCallers {
		what := "got " + v.kind.String() // it may be a secret
		if v.kind == kindObject {
			what += " with " + strconv.Itoa(len(v.names)) + " entries"
		}
		p.bad(at, what+wantCallers)
		return
	}
	var list []Caller
	p.eachMember(at, v, func(name, place string, item value) {
		caller := Caller{Name: strings.Clone(name), Share: 1}
		switch {
		case !isWord(name, classLetters, maxClassName):
			p.bad(place, "no name of a caller"+wantClass)
			return
		case item.kind != kindObject:
			p.bad(place, "got "+item.kind.String()+`, want an object like {"token": "…"}`)
			return
		}
		p.members(callerKeys, &caller, place, item)
		list = append(list, caller)
	})
	c.API.Callers = list
}

// checkCallers compares callers with each other, with the token that is nobody's, and with the classes.
func checkCallers(pt *part) {
	list := pt.API.Callers
	for i := range list {
		c, at := &list[i], keyCallers+"."+list[i].Name
		same := c.Token == pt.API.Token
		for j := range list[:i] {
			same = same || c.Token == list[j].Token
		}
		if same && c.Token != "" {
			pt.badKey(at+".token", "is another caller's as well, want one of its own")
		}
		switch {
		case c.Class == "":
		case !pt.Queue.Enabled():
			pt.badKey(at+".class", "not known: there are no classes without lb_config.queue")
		case pt.Queue.named(c.Class) == nil:
			pt.badKey(at+".class", "got "+quote(c.Class)+", want "+oneOf(pt.Queue.classNames()))
		}
	}
}
