package redisclient_test

import (
	"testing"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb/storetest"
)

// conforms runs a suite on each version and on a fallback store, in short only on that, which calls the other one.
func conforms(t *testing.T, run func(*testing.T, func(*testing.T) storetest.Backend)) {
	t.Helper()
	versions := redisserver.Versions()
	if testing.Short() { // TestConformance runs on all
		versions = nil
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			s := redisserver.StartT(t, redisserver.Options{Version: version})
			run(t, openClocked(t, s, false, seedsOn(version)))
		})
	}
	t.Run("as a fallback store", func(t *testing.T) {
		run(t, openClocked(t, redisserver.StartT(t, redisserver.Options{}), true, seedsOn("")))
	})
}

func TestQueueConformance(t *testing.T) { conforms(t, storetest.RunQueue) }

func TestBudgetConformance(t *testing.T) { conforms(t, storetest.RunBudget) }

func TestTaskConformance(t *testing.T) { conforms(t, storetest.RunTasks) }

func TestBudgetQueueConformance(t *testing.T) { conforms(t, storetest.RunBudgetQueue) }

func TestTenantConformance(t *testing.T) { conforms(t, storetest.RunTenants) }
