package memstore_test

import (
	"testing"

	"github.com/warmgate/warmgate/lb/memstore/memstoretest"
	"github.com/warmgate/warmgate/lb/storetest"
)

func TestBudgetConformance(t *testing.T) {
	storetest.RunBudget(t, func(t *testing.T) storetest.Backend { return memstoretest.NewProcess(t) })
}

// Under load, releases and corrections are deferred.
func TestBudgetConformanceUnderLoad(t *testing.T) {
	storetest.RunBudget(t, func(t *testing.T) storetest.Backend {
		return &busyProcess{Process: memstoretest.NewProcess(t)}
	})
}

func TestBudgetQueueConformance(t *testing.T) {
	storetest.RunBudgetQueue(t, func(t *testing.T) storetest.Backend { return memstoretest.NewProcess(t) })
}

func TestBudgetQueueConformanceUnderLoad(t *testing.T) {
	storetest.RunBudgetQueue(t, func(t *testing.T) storetest.Backend {
		return &busyProcess{Process: memstoretest.NewProcess(t)}
	})
}

func TestTaskConformance(t *testing.T) {
	storetest.RunTasks(t, func(t *testing.T) storetest.Backend { return memstoretest.NewProcess(t) })
}

func TestTenantConformance(t *testing.T) {
	storetest.RunTenants(t, func(t *testing.T) storetest.Backend { return memstoretest.NewProcess(t) })
}

func TestTenantConformanceUnderLoad(t *testing.T) {
	storetest.RunTenants(t, func(t *testing.T) storetest.Backend {
		return &busyProcess{Process: memstoretest.NewProcess(t)}
	})
}
