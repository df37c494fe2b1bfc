package redisclient_test

import (
	"testing"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb/storetest"
)

func TestBudgetConformance(t *testing.T) {
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			s := redisserver.StartT(t, redisserver.Options{Version: version})
			storetest.RunBudget(t, openClocked(t, s, false, fewSeeds))
		})
	}
	t.Run("as a fallback store", func(t *testing.T) {
		storetest.RunBudget(t, openClocked(t, redisserver.StartT(t, redisserver.Options{}), true, fewSeeds))
	})
}

func TestTaskConformance(t *testing.T) {
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			s := redisserver.StartT(t, redisserver.Options{Version: version})
			storetest.RunTasks(t, openClocked(t, s, false, fewSeeds))
		})
	}
	t.Run("as a fallback store", func(t *testing.T) {
		storetest.RunTasks(t, openClocked(t, redisserver.StartT(t, redisserver.Options{}), true, fewSeeds))
	})
}

func TestBudgetQueueConformance(t *testing.T) {
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			s := redisserver.StartT(t, redisserver.Options{Version: version})
			storetest.RunBudgetQueue(t, openClocked(t, s, false, fewSeeds))
		})
	}
	t.Run("as a fallback store", func(t *testing.T) {
		storetest.RunBudgetQueue(t, openClocked(t, redisserver.StartT(t, redisserver.Options{}), true, fewSeeds))
	})
}

func TestTenantConformance(t *testing.T) {
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			s := redisserver.StartT(t, redisserver.Options{Version: version})
			storetest.RunTenants(t, openClocked(t, s, false, fewSeeds))
		})
	}
	t.Run("as a fallback store", func(t *testing.T) {
		storetest.RunTenants(t, openClocked(t, redisserver.StartT(t, redisserver.Options{}), true, fewSeeds))
	})
}
