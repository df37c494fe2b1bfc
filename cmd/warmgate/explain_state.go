package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/internal/explain"
	"github.com/warmgate/warmgate/internal/snapshot"
	"github.com/warmgate/warmgate/internal/state"
)

// This file is how explain learns what a gateway would know.

// readState puts into the question what is known of the gateway.
func (x *explaining) readState(q *explain.Question) error {
	if x.state != "" && len(x.endpoints) > 0 {
		return errors.New("--state has endpoints: want no --endpoint")
	}
	q.Cached = map[string]float64{}
	if x.state != "" {
		known, err := x.readSnapshot()
		if err != nil {
			return fmt.Errorf("--state %s: %w", x.state, err)
		}
		q.State = *known
	} else if len(x.endpoints) > 0 {
		c := state.Cluster{Name: cmp.Or(x.cluster, "llm")}
		for _, text := range x.endpoints {
			e, err := parseEndpoint(text, q.Cached)
			if err != nil {
				return fmt.Errorf("--endpoint %s: %w", text, err)
			}
			if hasEndpoint(&c, e.Addr) {
				return fmt.Errorf("--endpoint %s: this address is there twice", text)
			}
			c.Endpoints = append(c.Endpoints, e)
		}
		q.State.Clusters = []state.Cluster{c}
	}
	for _, text := range x.cached {
		addr, share, _ := strings.Cut(text, "=")
		part, err := parseShare(share)
		if addr == "" || err != nil {
			return fmt.Errorf("--cached %s: want an address and a part like 10.0.0.1:8000=80%%", text)
		}
		if all := q.State.Clusters; len(all) > 0 && !slices.ContainsFunc(all, func(c state.Cluster) bool {
			return hasEndpoint(&c, addr)
		}) {
			return fmt.Errorf("--cached %s: no endpoint has this address", text)
		}
		q.Cached[addr] = part
	}
	return x.chooseCluster(q)
}

func hasEndpoint(c *state.Cluster, addr string) bool {
	return slices.ContainsFunc(c.Endpoints, func(e state.Endpoint) bool { return e.Addr == addr })
}

// chooseCluster finds out to which cluster the request is routed.
func (x *explaining) chooseCluster(q *explain.Question) error {
	var names []string
	for i := range q.State.Clusters {
		if c := &q.State.Clusters[i]; c.Name == x.cluster || x.cluster == "" {
			names = append(names, c.Name)
		}
	}
	switch {
	case len(names) > 1:
		return fmt.Errorf("want one of the clusters by --cluster: %s", strings.Join(names, ", "))
	case len(names) == 0 && len(q.State.Clusters) > 0:
		return fmt.Errorf("--cluster %s: the snapshot has no such cluster", x.cluster)
	case len(names) == 0:
		names = []string{cmp.Or(x.cluster, "llm")}
	}
	q.Cluster = names[0]
	return nil
}

// readSnapshot returns the state of the gateway in a snapshot.
func (x *explaining) readSnapshot() (*state.State, error) {
	text, err := os.ReadFile(x.state)
	if err != nil {
		return nil, err
	}
	var s snapshot.Snapshot
	if err := json.Unmarshal(text, &s); err != nil || s.Format != snapshot.Format {
		return nil, errors.New("this is no snapshot that this version of warmgate understands")
	}
	var names []string
	var known *state.State
	for i := range s.Gateways {
		g := &s.Gateways[i]
		if x.gateway == "" || g.Name == x.gateway {
			names, known = append(names, g.Name), g.State
		}
	}
	switch {
	case len(names) > 1:
		return nil, fmt.Errorf("want one of its gateways by --gateway: %s", strings.Join(names, ", "))
	case len(names) == 0:
		return nil, fmt.Errorf("it has no gateway %q", x.gateway)
	case known == nil:
		return nil, fmt.Errorf("it has no state of %s, which lb_config.inspect would show", names[0])
	}
	return known, nil
}

// parseEndpoint reads ADDRESS[,requests=N][,tokens=N][,weight=X][,zone=NAME][,cached=N%].
func parseEndpoint(text string, cached map[string]float64) (e state.Endpoint, err error) {
	parts := strings.Split(text, ",")
	e = state.Endpoint{Addr: parts[0], Weight: 1}
	if e.Addr == "" || strings.Contains(e.Addr, "=") {
		return e, errors.New("want an address in front, like 10.0.0.1:8000,requests=3")
	}
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "requests":
			e.Requests, err = parseCount(value)
		case "tokens":
			e.Tokens, err = parseCount(value)
		case "weight":
			if e.Weight, err = strconv.ParseFloat(value, 64); err == nil && !(e.Weight >= 1e-6 && e.Weight <= 1e6) {
				err = errors.New("out of bounds")
			}
		case "zone":
			e.Zone = value
		case "cached":
			cached[e.Addr], err = parseShare(value)
		default:
			err = errors.New("unknown")
		}
		if err != nil {
			return e, fmt.Errorf("%s: want requests=N, tokens=N, weight=X, zone=NAME or cached=N%%", part)
		}
	}
	if e.Tokens > 0 && e.Requests == 0 {
		return e, errors.New("tokens are those of requests in flight: want requests=N, too")
	}
	return e, nil
}

// parseCount reads a number of requests, or of tokens, that may be in flight at an endpoint.
func parseCount(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && (n < 0 || n > 1e9) {
		err = errors.New("out of bounds")
	}
	return n, err
}

// parseShare reads a part such as 80%.
func parseShare(text string) (float64, error) {
	digits, ok := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(digits, 64)
	if err == nil && (!ok || !(x >= 0 && x <= 100)) {
		err = errors.New("want a number of percent")
	}
	return x / 100, err
}
