package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

const (
	clusterHeader = "x-cluster"
	tenantHeader  = "x-tenant"
	// How many tenants and models are in use at a time, and after how many requests one of them is replaced.
	tenants, tenantEvery = 40, 2000
	models, modelEvery   = 20, 2500
)

// mix makes the requests: of many tenants, for many models, at the clusters that there are.
type mix struct {
	mu    sync.Mutex
	names []string // of the clusters besides llm that requests may name
}

// use sets the clusters that requests are made to.
func (m *mix) use(names []string) {
	m.mu.Lock()
	m.names = names
	m.mu.Unlock()
}

// cluster draws one, "" for llm, which gets half.
func (m *mix) cluster(r *rand.Rand) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.names); n > 0 && r.IntN(2) == 0 {
		return m.names[r.IntN(n)]
	}
	return ""
}

// request is mostly a short one. The prompts of a tenant begin alike.
func (m *mix) request(r *rand.Rand, id int) loadgen.Request {
	q := loadgen.Request{ID: id, MaxTokens: 1, Stream: r.IntN(2) == 0, Header: http.Header{}}
	tenant := id/tenantEvery + r.IntN(tenants)
	q.Header.Set(tenantHeader, "tenant-"+strconv.Itoa(tenant))
	if name := m.cluster(r); name != "" {
		q.Header.Set(clusterHeader, name)
	}
	q.Model = fmt.Sprintf("model-%d", id/modelEvery+r.IntN(models))
	words, pad := 8, 0
	switch n := r.IntN(1000); {
	case n < 20: // a long answer
		q.MaxTokens, q.Stream = 20, true
	case n < 70: // a body that comes in pieces
		words = 256
		q.Upload = loadgen.Upload{Chunked: r.IntN(2) == 0, Pieces: 4, Pause: 30 * time.Millisecond}
	case n < 73: // a big one
		pad = 256 << 10
		q.Upload = loadgen.Upload{Chunked: r.IntN(2) == 0, Pieces: 8, Pause: 10 * time.Millisecond}
	}
	system := loadgen.Text(rand.New(rand.NewPCG(uint64(tenant), 0)), 128)
	messages := []loadgen.Message{{Role: "system", Content: system}, {Role: "user", Content: loadgen.Text(r, words)}}
	body, err := loadgen.ConversationBody(q.Model, messages, q.MaxTokens, q.Stream)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	q.Body = body
	if pad > 0 {
		q.Body = fmt.Appendf(nil, `{"padding":"%0*d",%s`, pad, 0, body[1:])
	}
	q.Leave = leave(r, &q)
	return q
}

// leave returns the point at which the client leaves. One in ten does.
func leave(r *rand.Rand, q *loadgen.Request) loadgen.Leave {
	if r.IntN(10) > 0 {
		return loadgen.Leave{}
	}
	l := loadgen.Leave{At: loadgen.BeforeFirstByte, After: time.Duration(r.IntN(50)) * time.Millisecond}
	switch {
	case q.Upload.Pieces > 1 && r.IntN(2) == 0:
		l.At = loadgen.MidUpload
	case q.MaxTokens > 1:
		l.At, l.Events = loadgen.MidStream, 1+r.IntN(5)
	case r.IntN(4) == 0:
		l.At = loadgen.AfterHeaders
	}
	return l
}
