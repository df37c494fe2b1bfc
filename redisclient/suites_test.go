package redisclient_test

import (
	"testing"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb/storetest"
)

// onEach calls run with each version, and with a fallback store, in short only with that, which calls the other one:
// random histories run on all versions in short, too.
func onEach(t *testing.T, run func(t *testing.T, s *redisserver.Server, version string, fallback bool)) {
	t.Helper()
	versions := redisserver.Versions()
	if testing.Short() {
		versions = nil
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			run(t, redisserver.StartT(t, redisserver.Options{Version: version}), version, false)
		})
	}
	t.Run("as a fallback store", func(t *testing.T) {
		run(t, redisserver.StartT(t, redisserver.Options{}), "", true)
	})
}

// conforms runs a suite whose backends have the clock of the test.
func conforms(t *testing.T, suite func(*testing.T, func(*testing.T) storetest.Backend)) {
	t.Helper()
	onEach(t, func(t *testing.T, s *redisserver.Server, version string, fallback bool) {
		suite(t, openClocked(t, s, fallback, seedsOn(version)))
	})
}

func TestConformance(t *testing.T) {
	onEach(t, func(t *testing.T, s *redisserver.Server, _ string, fallback bool) {
		storetest.Run(t, openBackends(s, fallback))
	})
}

func TestQueueConformance(t *testing.T) { conforms(t, storetest.RunQueue) }

func TestBudgetConformance(t *testing.T) { conforms(t, storetest.RunBudget) }

func TestTaskConformance(t *testing.T) { conforms(t, storetest.RunTasks) }

func TestBudgetQueueConformance(t *testing.T) { conforms(t, storetest.RunBudgetQueue) }

func TestTenantConformance(t *testing.T) { conforms(t, storetest.RunTenants) }
