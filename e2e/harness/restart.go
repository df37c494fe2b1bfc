package harness

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/wait"
)

// baseIDFile is where Envoy writes the number by which the processes of one gateway know each other.
const baseIDFile = "base-id"

// Restart hot-restarts Envoy: a second process takes over the listener and new connections, while the first drains. It
// returns once the second takes requests; from then on the gateway is the second process. The first runs until Stop, so
// that no test depends on how long Envoy needs to compile the module. The listener must have a port of its own: with
// port 0 the second process would listen on another one.
func (g *Gateway) Restart(ctx context.Context) error {
	id, err := os.ReadFile(filepath.Join(g.dir, baseIDFile))
	if err != nil {
		return err
	}
	g.old = append(g.old, g.process)
	epoch := len(g.old)
	if err := g.run(ctx, "--base-id", strings.TrimSpace(string(id)), "--restart-epoch", strconv.Itoa(epoch),
		"--parent-shutdown-time-s", "3600"); err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return wait.Poll(ready, 20*time.Millisecond, func() (bool, error) {
		if err := g.process.Ended(); err != nil {
			return false, err
		}
		g.admin.client.CloseIdleConnections() // they lead to the first process
		stats, err := g.Stats(ready, `^server\.(hot_restart_epoch|live)$`)
		return err == nil && int(stats["server.hot_restart_epoch"]) == epoch && stats["server.live"] == 1, nil
	})
}
