package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/plugin/config"
)

// contenders returns what the flags name.
func (s *simulation) contenders(stdin io.Reader) (all []simulate.Contender, err error) {
	policies := s.policies
	if len(policies)+len(s.configs) == 0 {
		policies = usualPolicies
	}
	count := map[string]int{}
	for _, p := range policies {
		name, keys, hasKeys := strings.Cut(p, "=")
		c, err := simulate.Contender{}, error(nil)
		if hasKeys {
			count[name]++
			c, err = ofKeys(name, keys, count[name])
		} else if c, err = simulate.OfPolicy(name); err != nil {
			err = fmt.Errorf("%w; of the gateway's own there are %s", err, strings.Join(simulate.Natives(), ", "))
		}
		if err != nil {
			return nil, fmt.Errorf("--policy %s: %w", name, err)
		}
		all = append(all, c)
	}
	for _, file := range s.configs {
		before := len(all)
		var faults []error // of the files, where it is a folder
		err := source.Read(file, stdin, func(f *source.File, _ bool) {
			c, err := ofFile(f)
			if err != nil {
				faults = append(faults, fmt.Errorf("--config %s: %w", f.Name, err))
			}
			all = append(all, c)
		})
		if err := errors.Join(append(faults, err)...); err != nil {
			return nil, err
		}
		if len(all) == before {
			return nil, fmt.Errorf("--config %s: no file in this folder mentions the plugin", file)
		}
	}
	return all, s.checkClasses(all)
}

// ofKeys returns the contender of NAME={...} with lb_config. Its name has a number, and repeats no key, which may be
// a password.
func ofKeys(name, keys string, number int) (simulate.Contender, error) {
	if slices.Contains(simulate.Natives(), name) {
		return simulate.Contender{}, errors.New("a policy of the gateway's own has no keys")
	}
	text := fmt.Appendf(nil, `{"lb_policy":%q,"lb_config":%s}`, name, keys)
	return simulate.ParseContender(fmt.Sprintf("%s #%d", name, number), text, config.Higress)
}

// ofFile returns the contender of the configuration in a file.
func ofFile(f *source.File) (simulate.Contender, error) {
	c, err := configIn(f)
	if err != nil {
		return simulate.Contender{}, err
	}
	return simulate.ParseContender(f.Name, c.Text, c.Host)
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
