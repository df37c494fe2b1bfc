package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// Contender is one way to find the server for a request: a policy of the gateway, or a router in its place.
type Contender struct {
	Policy compare.Policy // of a router only its name
	Router *Router        // nil = none
	Fresh  bool           // the client opens a connection for each request
	Added  bool           // beside those that are compared with: a variant, or what is no gateway
}

// By is the gateway with a policy.
func By(p compare.Policy) Contender { return Contender{Policy: p} }

// Behind is a router, with arguments in place of its defaults if it is tuned.
func Behind(r *Router, suffix string, tuned ...string) Contender {
	r.Tuned = tuned
	return Contender{Policy: compare.Policy{Name: r.Name + suffix}, Router: r, Fresh: r.Fresh}
}

// Name returns how the contender is called.
func (c *Contender) Name() string { return c.Policy.Name }

// Describe returns what is compared.
func (c *Contender) Describe() string {
	if c.Router != nil {
		return c.Router.Describe()
	}
	return c.Policy.Describe()
}

// Installed returns the contenders without those whose routers cannot be had: these are left out, with a note.
func Installed[C any](ctx context.Context, list []C, of func(*C) *Contender, notes *bench.Notes) ([]C, error) {
	var out []C
	for i := range list {
		if c := of(&list[i]); c.Router != nil {
			if err := c.Router.Install(ctx); err != nil {
				notes.Note("%s: left out, cannot be installed: %v", c.Name(), err)
				continue
			}
		}
		out = append(out, list[i])
	}
	return out, ctx.Err()
}

// patience of the clients: much longer than any wait.
const patience = 2 * time.Minute

// Meet has a client meet the contender at a path, which is that of chats if it is "". The stage is warm then, and its
// servers have empty caches and counts.
func (c *Contender) Meet(ctx context.Context, stage *compare.Stage, path string,
	play func(*loadgen.Client) error,
) (err error) {
	at, err := Begin(ctx, stage, c.Policy, c.Router)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Stop()) }()
	client := loadgen.NewClient(loadgen.Options{
		URL: at.URL + cmp.Or(path, compare.Path), KeepHeaders: compare.DebugHeaders, Timeout: patience, Fresh: c.Fresh,
	})
	defer client.Close()
	if err := scripted.WarmUp(ctx, client, path != "", 4*len(stage.Servers)); err != nil {
		return fmt.Errorf("%w\n%s", err, at.Log())
	}
	for _, s := range stage.Servers {
		s.Reset()
	}
	stage.Fleet.Reset()
	err = play(client)
	return cmp.Or(ctx.Err(), err)
}
