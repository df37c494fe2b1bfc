package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
	"github.com/warmgate/warmgate/internal/simulate"
)

// contenders returns what the flags name. What the plugin would warn of is written to notes, each once: a key that it
// does not have makes no difference between rows.
func (s *simulation) contenders(stdin io.Reader, notes io.Writer) (all []simulate.Contender, err error) {
	named, err := s.named(stdin)
	if err != nil {
		return nil, err
	}
	if named, err = vary(named, s.keys); err != nil {
		return nil, err
	}
	var faults []error
	warned := map[string]bool{}
	for i := range named {
		c, err := named[i].parse()
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", named[i].flag, err))
		}
		for _, w := range c.Warnings {
			if !warned[w] {
				warned[w] = true
				fmt.Fprintf(notes, "%s: %s\n", named[i].flag, w)
			}
		}
		all = append(all, c)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return all, s.checkClasses(all)
}

// named returns what the flags name, as it is written.
func (s *simulation) named(stdin io.Reader) (all []written, err error) {
	policies := s.policies
	if len(policies)+len(s.configs) == 0 {
		if len(s.where.regions) > 0 {
			s.where.forward = true
			return []written{regional}, nil
		}
		policies = usualPolicies
	}
	count := map[string]int{}
	for _, p := range policies {
		w, err := ofPolicy(p, count)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	for _, file := range s.configs {
		before := len(all)
		var faults []error // of the files, where it is a folder
		err := source.Read(file, stdin, func(f *source.File, _ bool) {
			w, err := ofFile(f)
			if err != nil {
				faults = append(faults, fmt.Errorf("--config %s: %w", f.Name, err))
			}
			all = append(all, w)
		})
		if err := errors.Join(append(faults, err)...); err != nil {
			return nil, err
		}
		if len(all) == before {
			return nil, fmt.Errorf("--config %s: no file in this folder mentions the plugin", file)
		}
	}
	return all, nil
}

// regional is what is played in regions unless something is named.
var regional = written{
	name: "prefix_cache", flag: "--region",
	raw: []byte(`{"lb_policy":"prefix_cache","lb_config":{"push":"pending","queue":{"max_wait":"10s"}}}`),
}

// ofPolicy returns what NAME or NAME={...} with lb_config stands for. The name of the latter has a number, by how many
// there are of that name, and repeats no key, which may be a password.
func ofPolicy(text string, count map[string]int) (w written, err error) {
	name, keys, hasKeys := strings.Cut(text, "=")
	w = written{name: name, flag: "--policy " + name, native: slices.Contains(simulate.Natives(), name)}
	switch {
	case hasKeys && w.native:
		return w, fmt.Errorf("%s: a policy of the gateway's own has no keys", w.flag)
	case hasKeys:
		count[name]++
		w.name = fmt.Sprintf("%s #%d", name, count[name])
		w.raw = fmt.Appendf(nil, `{"lb_policy":%q,"lb_config":%s}`, name, keys)
	case !w.native:
		if _, err := simulate.OfPolicy(name); err != nil {
			return w, fmt.Errorf("%s: %w; of the gateway's own there are %s", w.flag, err,
				strings.Join(simulate.Natives(), ", "))
		}
		w.raw = fmt.Appendf(nil, `{"lb_policy":%q}`, name)
	}
	return w, nil
}

// ofFile returns the configuration in a file, which may be of any kind that validate reads.
func ofFile(f *source.File) (written, error) {
	c, err := configIn(f)
	if err != nil {
		return written{}, err
	}
	return written{name: f.Name, flag: "--config " + f.Name, raw: c.Text, gateway: c.Host}, nil
}

// checkClasses refuses a class of the load that none of the queues has: it would wait as another one.
func (s *simulation) checkClasses(all []simulate.Contender) error {
	var known []string
	for _, c := range all {
		if c.Config == nil || !c.Config.Queue.Enabled() {
			continue
		}
		for i := range c.Config.Queue.Classes {
			known = append(known, c.Config.Queue.Classes[i].Name)
		}
	}
	for _, c := range s.sessions.Classes {
		if len(known) > 0 && !slices.Contains(known, c.Class) {
			return fmt.Errorf("--class %s: no queue has this class, want one of %q", c.Class, known)
		}
	}
	return nil
}
