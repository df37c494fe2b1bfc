package harness

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
)

// ends are the functions that AtEnd was given.
var ends struct {
	sync.Mutex
	list []func() error
}

// AtEnd has a function called when all tests of a package have ended whose TestMain calls Main.
func AtEnd(f func() error) {
	ends.Lock()
	defer ends.Unlock()
	ends.list = append(ends.list, f)
}

// Main runs the tests of a package and then, the last first, what AtEnd was given. It exits.
func Main(m *testing.M) {
	code := m.Run()
	for _, end := range slices.Backward(ends.list) {
		if err := end(); err != nil {
			panic(err)
		}
	}
	os.Exit(code)
}

// kept are the gateways of TakeT, by name.
var kept = map[string]*Gateway{}

// TakeT is StartT for tests that run one after the other and hand a gateway on, since each has compiled the plugin for
// seconds of CPU. The first test starts the gateway of that name, and so does the one after a test that has ended it.
// The options of others may differ in what can be pushed: endpoints, configuration, and changes of files but
// envoy.yaml. It needs Main.
func TakeT(t testing.TB, name string, o Options) *Gateway {
	t.Helper()
	ctx := context.Background() // the gateway outlives the test
	g, err := kept[name], error(nil)
	if g == nil || g.process.Ended() != nil {
		if g, err = Start(ctx, o); err == nil {
			AtEnd(g.Stop)
		}
	} else {
		g.before = nil
		g.before = map[string]int{logFile: len(g.Logs()), accessLogFile: len(g.AccessLog())}
		g.options.Edit = o.Edit
		err = errors.Join(g.PushEndpoints(ctx, o.Endpoints), g.PushCluster(ctx, o.Policy), g.PushPlugin(ctx, o.Config))
	}
	if err != nil {
		t.Fatal(err)
	}
	kept[name] = g
	t.Cleanup(func() { g.showLog(t) })
	return g
}
