package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/lb/region"
)

const (
	maxEndpoints = 100_000 // fit into memory
	maxGateways  = 64
	minCache     = 16
)

// servers are some of the same kind.
type servers struct {
	text  string
	n     int
	speed float64                  // relative to the others
	more  []func(*simulate.Engine) // what differs beside that
}

// place is a region with its servers and users.
type place struct {
	simulate.Place
	name string
	n    int // servers
}

// engines returns the servers.
func (s *servers) engines(usual simulate.Engine) []simulate.Engine {
	e := usual
	e.Times.Speed *= s.speed
	for _, set := range s.more {
		set(&e)
	}
	return simulate.Alike(s.n, e)
}

// serversFlag is a flag: kinds of servers.
type serversFlag []servers

func (s *serversFlag) String() string {
	var parts []string
	for _, k := range *s {
		parts = append(parts, k.text)
	}
	return strings.Join(parts, " ")
}

func (s *serversFlag) Type() string { return "number:speed=factor" }

func (s *serversFlag) Set(text string) error {
	count, more, _ := strings.Cut(text, ":")
	n, err := strconv.Atoi(count)
	kind := servers{text: text, n: n, speed: 1}
	if err == nil && more != "" {
		err = eachMember(more, kind.set)
	}
	if err != nil {
		return errors.New("want a number of servers and what differs in them, " +
			"like 2:speed=0.5,cache=64k,batch=32,queue=8")
	}
	*s = append(*s, kind)
	return nil
}

// set sets what differs in servers.
func (s *servers) set(name, value string) (err error) {
	var n tokens
	if name == "speed" {
		s.speed, err = strconv.ParseFloat(value, 64)
		if !(s.speed > 0 && s.speed <= 1000) {
			return errors.New("no speed")
		}
		return err
	}
	if err := n.Set(value); err != nil || n < 1 {
		return errors.New("no number")
	}
	set := map[string]func(e *simulate.Engine){
		"cache": func(e *simulate.Engine) { e.Config.NumBlocks = int(n) / e.Config.BlockSize },
		"batch": func(e *simulate.Engine) { e.Config.MaxNumSeqs = int(n) },
		"queue": func(e *simulate.Engine) { e.Config.MaxQueued = int(n) },
	}[name]
	if set == nil || name == "batch" && n > maxBatch || name == "cache" && n < minCache {
		return errors.New("no such member")
	}
	s.more = append(s.more, set)
	return nil
}

// eachMember calls set for each part of a text like speed=0.5,cache=64k.
func eachMember(text string, set func(name, value string) error) error {
	for _, part := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		if err := set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// placesFlag is a flag: regions.
type placesFlag []place

func (p *placesFlag) String() string {
	var parts []string
	for _, r := range *p {
		parts = append(parts, fmt.Sprintf("%s=%d,share=%g,zone=%g", r.name, r.n, r.Share, r.Zone))
	}
	return strings.Join(parts, " ")
}

func (p *placesFlag) Type() string { return "name=servers" }

func (p *placesFlag) Set(text string) error {
	r := place{Place: simulate.Place{Share: 1}}
	err := eachMember(text, func(name, value string) (err error) {
		switch {
		case r.name == "":
			r.name = name
			r.n, err = strconv.Atoi(value)
		case name == "share":
			r.Share, err = strconv.ParseFloat(value, 64)
		case name == "zone":
			r.Zone, err = strconv.ParseFloat(value, 64)
		default:
			err = errors.New("no such member")
		}
		return err
	})
	if err != nil || r.name == "" || len(r.name) > region.MaxName || strings.ContainsAny(r.name, " ;:\t") ||
		!(r.Share > 0 && r.Share <= math.MaxInt32) || !(math.Abs(r.Zone) <= 24) {
		return errors.New("want a region with its servers, and perhaps its share and zone, like eu=4,share=2,zone=1")
	}
	for _, other := range *p {
		if other.name == r.name {
			return fmt.Errorf("the region %s is there twice", r.name)
		}
	}
	*p = append(*p, r)
	return nil
}
