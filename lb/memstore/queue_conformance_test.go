package memstore_test

import (
	"testing"

	"github.com/warmgate/warmgate/lb/memstore/memstoretest"
	"github.com/warmgate/warmgate/lb/storetest"
)

func TestQueueConformance(t *testing.T) {
	storetest.RunQueue(t, func(t *testing.T) storetest.Backend { return memstoretest.NewProcess(t) })
}

// Under load, releases are deferred unless somebody waits for what they free.
func TestQueueConformanceUnderLoad(t *testing.T) {
	storetest.RunQueue(t, func(t *testing.T) storetest.Backend {
		return &busyProcess{Process: memstoretest.NewProcess(t)}
	})
}
