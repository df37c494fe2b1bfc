package redisclient

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// Settle implements [lb.Store].
func (*Store) Settle(_ time.Duration, _, _ string, _ int64) {}

// Restrict implements [lb.Store].
func (*Store) Restrict(_ time.Duration, _, _ string, _ budget.Restriction) {}

// Schedule implements [lb.TaskStore].
func (*Store) Schedule(_ time.Duration, _ uint64, _ time.Duration, _ *lb.Plan, done func(lb.Task, error)) {
	done(lb.Task{}, lb.ErrUnready)
}

// Complete implements [lb.TaskStore].
func (*Store) Complete(_ time.Duration, _ string, _ lb.TaskID, _ int64, done func(lb.TaskEnd, error)) {
	done(lb.TaskUnknown, lb.ErrUnready)
}

// Renew implements [lb.TaskStore].
func (*Store) Renew(_ time.Duration, _ string, _ lb.TaskID, _ time.Duration, done func(bool, error)) {
	done(false, lb.ErrUnready)
}
