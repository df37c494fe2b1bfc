package redisclient_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// denials is a transport that counts replies that deny access.
type denials struct {
	*syncTransport
	denied int
	other  []string // other errors
}

func (d *denials) Do(now time.Duration, cmd []byte, done redisclient.Done) {
	d.syncTransport.Do(now, cmd, func(now time.Duration, reply []byte, err error) {
		d.see(reply)
		done(now, reply, err)
	})
}

func (d *denials) see(reply []byte) {
	switch {
	case reply[0] != '-', bytes.HasPrefix(reply, []byte("-NOSCRIPT")),
		bytes.Contains(reply, []byte("cluster support disabled")):
	case bytes.Contains(reply, []byte("permission")),
		bytes.Contains(reply, []byte("The user executing the script can't")):
		d.denied++
	default:
		d.other = append(d.other, string(reply))
	}
}

// runAsUser runs everything that a store does as a user with the given rules, and returns what was denied.
func runAsUser(t testing.TB, s *redisserver.Server, rules string) *denials {
	t.Helper()
	command := []any{"ACL", "SETUSER", "gate", "reset", "on", ">secret"}
	for _, rule := range strings.Fields(rules) {
		command = append(command, rule)
	}
	mustDo(t, s, command, []any{"FLUSHALL"}, []any{"SCRIPT", "FLUSH"})
	d := &denials{syncTransport: dial(t, s)}
	d.value("AUTH", "gate", "secret")
	for _, command := range [][]string{{"PING"}, {"ROLE"}, {"SELECT", "1"}, {"SELECT", "0"}, {"ASKING"}} {
		d.see(d.roundTrip(redisclient.AppendCommand(nil, command...)))
	}
	runAllScripts(t, s, d)
	return d
}

// tenantsCome has so many tenants come that some are looked at, to be forgotten, unless enough is known already.
func tenantsCome(d *denials, s *redisclient.Store, now time.Duration) {
	for i := 0; i < 600 && d.denied == 0; i++ {
		id, plan := lb.LeaseID(1000+i), storetest.TenantPlan(i, budget.Limits{Tokens: 10}, 0, 10)
		s.Reserve(now, id, plan, func(lb.Grant, error) {})
		s.Settle(now, id, plan.Candidates[0].Addr, 1, 0)
		s.Restrict(now, plan.Scope, plan.Candidates[0].Addr, budget.Restriction{RetryAfter: 1})
		s.Release(now, id)
	}
}

// limitsAreSet sets a limit at run time, has it be as configured again, and looks at what is left.
func limitsAreSet(s *redisclient.Store, now time.Duration) {
	for _, limit := range []float64{1, -1} {
		set := lb.Override{Target: 1, Set: lb.TargetLimits{limit, -1, -1}}
		s.Overrides(now, "llm", &set, func([]lb.Override, error) {})
	}
	s.Levels(now, "llm", storetest.Addrs(1), func([]lb.BudgetLevel, error) {})
}

// runAllScripts has two owners do everything that stores do.
func runAllScripts(t testing.TB, server *redisserver.Server, d *denials) {
	o := redisclient.Options{Owner: 1, TTL: storetest.TTL, Timeout: time.Second, KV: newMemory()}
	a := redisclient.New(d, o)
	o.Owner = 2
	b := redisclient.New(d, o)
	probe := func(s *redisclient.Store, now time.Duration) { // which keeps the breaker closed
		if err := s.Heartbeat(now); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Second
	for i := range 120 { // endpoints come and go, so that rows are used again
		now += time.Millisecond
		plan := storetest.Even([]string{fmt.Sprintf("10.0.0.%d:1", i)})
		a.Reserve(now, lb.LeaseID(i), plan, func(lb.Grant, error) {})
		a.Amend(now, lb.LeaseID(i), "", 5)
		a.Release(now, lb.LeaseID(i))
	}
	prompt := storetest.WithPrompt(manualPlan, 1, storetest.Blocks(1, 2))
	b.Reserve(now, 499, prompt, func(lb.Grant, error) {})
	b.RecordPrompt(now, 499, prompt, manualPlan.Candidates[1].Addr)
	b.ForgetPrompt(now, 499, prompt, manualPlan.Candidates[0].Addr, 0)
	b.ForgetPrompt(now, 499, prompt, manualPlan.Candidates[1].Addr, 0)
	reserve(a, now, 500)
	reserve(b, now, 500)
	budgeted := storetest.Budgeted(storetest.Addrs(2), budget.Limits{Weight: 1, Tokens: 10}, 10)
	for id := lb.LeaseID(505); id < 508; id++ {
		a.Reserve(now, id, budgeted, func(lb.Grant, error) {})
	}
	a.Settle(now, 505, storetest.Addrs(1)[0], 1, 0)
	a.Restrict(now, "llm", storetest.Addrs(1)[0], budget.Restriction{RetryAfter: 1})
	tenantsCome(d, a, now)
	for key := range uint64(3) {
		a.Schedule(now, key, time.Second, budgeted, func(task lb.Task, _ error) {
			a.Renew(now, "llm", task.ID, time.Second, func(bool, error) {})
			if key > 1 {
				a.Complete(now, "llm", task.ID, lb.TaskUse{Tokens: 5}, func(lb.TaskEnd, error) {})
			}
		})
	}
	a.Loads(now, "llm", []string{"10.0.0.1:1"}, func([]lb.Load, error) {})
	limitsAreSet(a, now)
	a.Adopt(now, 501, "llm", "10.0.0.1:1", 9)
	d.fate = func([]byte) int { return notSent }
	reserve(a, now, 502)
	d.fate = func([]byte) int { return replyLost }
	a.Reserve(now, 504, prompt, func(lb.Grant, error) {})
	a.Reserve(now, 508, budgeted, func(lb.Grant, error) {})
	a.Reserve(now, 509, storetest.TenantPlan(1, budget.Limits{}, 0, 10), func(lb.Grant, error) {})
	d.fate = nil
	a.Expire(now + time.Second) // leaves a tombstone, and cancels what has run
	probe(a, now)
	probe(b, now)
	mustDo(t, server, []any{"DEL", redisclient.KeysOf("llm").Table})
	probe(a, now+time.Second)
	reserve(b, now+time.Second, 503)
	(&backend{conn: dial(t, server)}).Pass(time.Minute) // b is dead
	probe(a, now+2*time.Second)
	a.Release(now+2*time.Second, 500)
}

// ACLRules suffice, and each of them is needed.
func TestACL(t *testing.T) {
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			s := redisserver.StartT(t, redisserver.Options{Version: version})
			if d := runAsUser(t, s, redisclient.ACLRules); d.denied > 0 || len(d.other) > 0 {
				t.Fatalf("with all rules %d commands were denied, and: %q", d.denied, d.other)
			}
			for _, rule := range strings.Fields(redisclient.ACLRules) {
				if testing.Short() && version != redisserver.Default {
					break
				}
				if !strings.HasPrefix(rule, "+") && !strings.HasPrefix(rule, "~") {
					continue
				}
				less := strings.Replace(redisclient.ACLRules+" ", " "+rule+" ", " ", 1)
				if d := runAsUser(t, s, less); d.denied == 0 {
					t.Errorf("without %s nothing is denied", rule)
				}
			}
			otherKeys := strings.Replace(redisclient.ACLRules, "~"+redisclient.KeyPrefix, "~other:", 1)
			if d := runAsUser(t, s, otherKeys); d.denied == 0 {
				t.Error("keys of others are not denied")
			}
		})
	}
}
