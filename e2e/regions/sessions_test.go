package regions

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/lb/region"
)

// playedRegion plays the gateway of a region that has much room, and returns its port.
func playedRegion(t *testing.T, name string) (port string) {
	key, one := region.NewKey(secret), sync.Mutex{}
	e := harness.ServeT(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-server", name)
		text := r.Header.Get("x-warmgate-probe")
		if text == "" {
			return
		}
		one.Lock()
		defer one.Unlock()
		wall := time.Duration(time.Now().UnixNano())
		if probe, err := key.ReadProbe(text, name, wall); err == nil {
			answer := key.SignAnswer(&probe, wall, region.State{Open: 100}, nil)
			w.Header().Set("x-warmgate-probe-answer", answer)
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	return e.Addr[strings.LastIndex(e.Addr, ":")+1:]
}

// keepsSessions has sessions of us, which is full, served by eu and by the region ap that is played: each of them by
// one server of one of the two. The plugin's configuration of us is then what it was.
func keepsSessions(t *testing.T, us, eu *place) {
	t.Helper()
	before := regionConfig("us", "eu", "")
	kept := func(name, peer, more string, takes int) string {
		return strings.NewReplacer(`"prefix_cache"`, `"consistent_hash"`, `"peers":[`, `"peers":[`+more,
			`"max_inflight":1`, fmt.Sprintf(`"max_inflight":%d`, takes)).Replace(regionConfig(name, peer, ""))
	}
	var servers []harness.Endpoint
	for i := range 3 {
		servers = append(servers, harness.ServeT(t, eu.server(fmt.Sprintf("eu/%d", i))))
	}
	if err := errors.Join(eu.gateway.PushEndpoints(t.Context(), servers),
		eu.gateway.PushPlugin(t.Context(), kept("eu", "us", "", 100)),
		us.gateway.PushPlugin(t.Context(), kept("us", "eu", `{"name":"ap","cluster":"to-ap","rtt":"20ms"},`, 1)),
	); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, func() error {
		const sessions, turns = 12, 4
		var by [sessions]string
		all := map[string]bool{}
		for turn := range turns * sessions {
			i := turn % sessions
			session := fmt.Sprintf("x-session-id: user-%d", i)
			a := harness.Send(t, nil, http.MethodGet, us.gateway.URL()+path, "", session)
			server := a.Header.Get("x-server")
			if by[i] == "" {
				by[i] = server
			}
			if all[server] = true; a.Status != http.StatusOK || server != by[i] || server == "us" {
				return fmt.Errorf("session %d is served by %q, before that by %q: %+v", i, server, by[i], a)
			}
		}
		if len(all) < 3 || !all["ap"] {
			return fmt.Errorf("all sessions are served by %v", all)
		}
		return nil
	})
	if err := us.gateway.PushPlugin(t.Context(), before); err != nil {
		t.Fatal(err)
	}
}
