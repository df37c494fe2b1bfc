package snapshot

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/redisclient"
)

// RedisSource is where the shared view is. What is read there is bounded, and nothing is changed.
type RedisSource struct {
	Address  string      // host:port, or unix:/path/of/its/socket
	TLS      *tls.Config // nil for none
	Username string      // "" for the default user
	Password string      // "" for none
	Database int
}

const (
	maxScopes = 64
	maxRows   = 4096         // endpoints of a scope
	maxTable  = 16 + 9*65000 // bytes of a table with all rows that there may be
	queueHead = 128          // bytes of a queue that say how many requests wait
	// redisTimeout is how long it may take to read everything.
	redisTimeout = 5 * time.Second
	// ownerTTL is for how long an owner counts as alive after its latest heartbeat.
	ownerTTL = 5 * time.Second
)

// wanted is what is read of a scope.
type wanted struct {
	name  string
	bytes []int // sizes of its prefix index
}

// scopes returns what gateways count in Redis, as far as that is known: scopes that are configured, and clusters of
// which the plugin has counted requests.
func (r *Reader) scopes(s *Snapshot) []wanted {
	sizes := map[string]map[int]bool{}
	for i, g := range s.Gateways {
		clusters := map[string]bool{}
		for _, name := range g.counted() {
			clusters[name] = true
		}
		if g.State != nil {
			for _, c := range g.State.Clusters {
				clusters[c.Name] = true
			}
		}
		configured := []shared{{}}
		if d := r.asked[i].dump; d != nil && len(d.shared) > 0 {
			configured = d.shared
		}
		for _, c := range configured {
			names := maps.Keys(clusters)
			if c.scope != "" {
				names = maps.Keys(map[string]bool{c.scope: true})
			}
			for name := range names {
				if sizes[name] == nil {
					sizes[name] = map[int]bool{}
				}
				sizes[name][c.bytes] = true
			}
		}
	}
	var out []wanted
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		out = append(out, wanted{name, slices.Sorted(maps.Keys(sizes[name]))})
	}
	return out
}

// read reads the scopes.
func (r *RedisSource) read(ctx context.Context, scopes []wanted) *Redis {
	out := new(Redis)
	problem := func(err error) { out.Problems = append(out.Problems, err.Error()) }
	if len(scopes) == 0 {
		problem(errors.New("no gateway says what is counted there"))
	}
	if len(scopes) > maxScopes {
		problem(errors.New("there are more scopes than " + strconv.Itoa(maxScopes) + ": the others are left out"))
		scopes = scopes[:maxScopes]
	}
	c, err := r.connect(ctx)
	if err != nil {
		problem(err)
		return out
	}
	defer c.Close()
	if info, err := c.do("INFO", "server"); err == nil { // which the plugin's own user may not
		_, version, _ := strings.Cut(string(info.Str), "redis_version:")
		out.Version, _, _ = strings.Cut(version, "\r")
	}
	for _, s := range scopes {
		scope, err := c.scope(s)
		if err != nil {
			problem(err)
			break
		}
		if scope.Owners > 0 || len(scope.Endpoints) > 0 { // else nothing is counted there
			out.Scopes = append(out.Scopes, *scope)
		}
	}
	return out
}

// connect connects and logs in.
func (r *RedisSource) connect(ctx context.Context) (*redisConn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	until := time.Now().Add(redisTimeout)
	network, addr := "tcp", r.Address
	if path, ok := strings.CutPrefix(addr, socketPrefix); ok {
		network, addr = "unix", path
	}
	var (
		conn   net.Conn
		err    error
		dialer net.Dialer
	)
	if r.TLS != nil {
		conn, err = (&tls.Dialer{NetDialer: &dialer, Config: r.TLS}).DialContext(ctx, network, addr)
	} else {
		conn, err = dialer.DialContext(ctx, network, addr)
	}
	if err != nil {
		return nil, err
	}
	c := &redisConn{conn}
	if err := errors.Join(c.SetDeadline(until), r.login(c)); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// login begins a connection.
func (r *RedisSource) login(c *redisConn) (err error) {
	switch {
	case r.Username != "":
		_, err = c.do("AUTH", r.Username, r.Password)
	case r.Password != "":
		_, err = c.do("AUTH", r.Password)
	}
	if err == nil && r.Database != 0 {
		_, err = c.do("SELECT", strconv.Itoa(r.Database))
	}
	return err
}

// scope reads one scope, by commands that the plugin's own user may use.
func (c *redisConn) scope(w wanted) (*SharedScope, error) {
	keys := redisclient.KeysOf(w.name)
	table, err := c.do("GETRANGE", keys.Table, "0", strconv.Itoa(maxTable))
	if err != nil {
		return nil, err
	}
	rows, err := c.rows(keys.Rows)
	if err != nil {
		return nil, err
	}
	now, err := c.do("TIME")
	if err != nil {
		return nil, err
	}
	alive := int64(0)
	if len(now.Items) == 2 {
		seconds, _ := strconv.ParseInt(string(now.Items[0].Str), 10, 64)
		alive = seconds*1000 - ownerTTL.Milliseconds()
	}
	owners, err := c.do("ZRANGEBYSCORE", keys.Owners, strconv.FormatInt(alive, 10), "+inf", "LIMIT", "0", "10000")
	if err != nil {
		return nil, err
	}
	out := &SharedScope{Name: w.name, Owners: len(owners.Items), Endpoints: []SharedLoad{}}
	for addr, load := range redisclient.ParseLoads(table.Str, rows) {
		out.Endpoints = append(out.Endpoints, SharedLoad{addr, load.Requests, load.Tokens})
	}
	slices.SortFunc(out.Endpoints, func(a, b SharedLoad) int { return cmp.Compare(a.Addr, b.Addr) })
	queue, err := c.do("GETRANGE", keys.Queue, "0", strconv.Itoa(queueHead))
	if err != nil {
		return nil, err
	}
	out.Waiting = int64(redisclient.ParseWaiting(table.Str, queue.Str))
	for _, bytes := range w.bytes {
		pages, err := c.do("HLEN", keys.PagesKey(bytes))
		if err != nil {
			return nil, err
		}
		out.Pages += pages.Int
	}
	return out, nil
}

// rows reads the rows of at most maxRows endpoints.
func (c *redisConn) rows(key string) (map[string]int, error) {
	rows, cursor := map[string]int{}, "0"
	for range maxRows {
		part, err := c.do("HSCAN", key, cursor, "COUNT", "512")
		if err != nil {
			return nil, err
		}
		if len(part.Items) != 2 {
			return nil, redisclient.ErrGarbage
		}
		pairs := part.Items[1].Items
		for i := 0; i+1 < len(pairs); i += 2 {
			if row, err := strconv.Atoi(string(pairs[i+1].Str)); err == nil && len(pairs[i].Str) > 0 {
				rows[string(pairs[i].Str)] = row
			}
		}
		cursor = string(part.Items[0].Str)
		if cursor == "0" || len(rows) >= maxRows {
			break
		}
	}
	return rows, nil
}

// redisConn is a connection with one command at a time.
type redisConn struct{ net.Conn }

// do sends a command and returns its answer.
func (c *redisConn) do(words ...string) (redisclient.Value, error) {
	if _, err := c.Write(redisclient.AppendCommand(nil, words...)); err != nil {
		return redisclient.Value{}, err
	}
	const most = 4 << 20 // an answer that is longer is none of Redis to a command above
	for read := make([]byte, 0, 4<<10); ; {
		n, err := c.Read(read[len(read):cap(read)])
		read = read[:len(read)+n]
		v, _, incomplete := redisclient.Parse(read)
		switch {
		case incomplete == nil && v.Kind == redisclient.ErrorReply:
			// Some servers repeat the command, with its password: only the word in front is shown.
			kind, _, _ := strings.Cut(string(v.Str), " ")
			return v, errors.New(kind + " is the answer to " + words[0])
		case incomplete == nil:
			return v, nil
		case !errors.Is(incomplete, redisclient.ErrIncomplete) || len(read) > most:
			return v, redisclient.ErrGarbage
		case err != nil:
			return v, err
		}
		read = slices.Grow(read, len(read)/2+1)
	}
}
