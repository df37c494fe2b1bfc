package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/vllmsim"
	"github.com/warmgate/warmgate/e2e/wait"
)

// byTokens holds requests until their body is there.
func byTokens(bodyTimeout string) string {
	return audit.Config(`"unit":"tokens"`, `"body_timeout":"`+bodyTimeout+`"`)
}

// herd lets many clients arrive at the same moment at servers that have nothing to do, and stay. Workers decide at the
// same time and must not choose the same servers. Then all clients leave at once.
func herd(a *act) error {
	for _, srv := range a.site.Servers() {
		if err := srv.SetMode(vllmsim.ModeHang); err != nil {
			return err
		}
	}
	n := a.settings.herd
	crowd, err := arrive(n, 1, a.site.Gateway.Addr())
	if err != nil {
		return err
	}
	defer crowd.Leave()
	a.result.Requests = n
	snap, took, err := a.site.Agree(a.ctx)
	for start := time.Now(); err == nil && snap.Totals().Server < int64(n) && time.Since(start) < time.Minute; {
		snap, took, err = a.site.Agree(a.ctx)
	}
	if err != nil {
		return err
	}
	a.result.AgreeMS = took.Milliseconds()
	if came := snap.Totals().Server; came != int64(n) {
		return fmt.Errorf("%d of %d requests reached a server", came, n)
	}
	a.result.Left = n
	return a.spread(snap, 2+a.workers)
}

// leavePoints are the states of a request in which its client may leave.
var leavePoints = []loadgen.LeavePoint{
	loadgen.MidUpload, loadgen.BeforeFirstByte, loadgen.AfterHeaders, loadgen.MidStream,
}

// leaver is a request whose client leaves at a random point, or stays.
func leaver(r *rand.Rand, id int) loadgen.Request {
	q := loadgen.Request{ID: id, MaxTokens: 1 + r.IntN(5), Stream: r.IntN(4) > 0}
	body, err := loadgen.ChatBody("sim", loadgen.Text(r, 1+r.IntN(500)), q.MaxTokens, q.Stream)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	q.Body = body
	q.Upload = loadgen.Upload{
		Chunked: r.IntN(2) == 0, Pieces: 1 + r.IntN(3),
		Pause: time.Duration(r.IntN(20)) * time.Millisecond,
	}
	if r.IntN(3) > 0 {
		q.Leave = loadgen.Leave{
			At:     leavePoints[r.IntN(len(leavePoints))],
			After:  time.Duration(r.IntN(150)) * time.Millisecond,
			Events: 1 + r.IntN(4),
		}
	}
	return q
}

// clientsLeave has most clients leave: while they send, while the plugin holds their request for its body, before the
// first byte and in the middle of the answer.
func clientsLeave(a *act) error {
	rate := a.rate * 1.5
	span := time.Duration(float64(a.leavers) / 2 / rate * float64(time.Second))
	for _, config := range []string{byTokens("1s"), byTokens("20ms"), audit.Config()} {
		if err := a.site.Gateway.PushPlugin(a.ctx, config); err != nil {
			return err
		}
		if _, err := a.play(rate, span*2/3, time.Minute, nothing, leaver, none); err != nil {
			return err
		}
		// The last clients have just left: how long are they still counted?
		_, took, err := a.site.AgreeWith(a.ctx, a.streams.Open)
		if err != nil {
			return err
		}
		a.result.Figures["released_ms"] = max(a.result.Figures["released_ms"], float64(took.Milliseconds()))
	}
	return nil
}

// slowBodies sends bodies whose parts come before, at and after the time that the plugin waits for them. Every one must
// arrive as it was sent: bytes that the gateway sent twice or not at all would be another request.
func slowBodies(a *act) error {
	if err := a.site.Gateway.PushPlugin(a.ctx, byTokens("60ms")); err != nil {
		return err
	}
	uploads := max(a.leavers/20, 20)
	var failed atomic.Int64
	err := wait.All(uploads, func(i int) error {
		err := a.upload(rand.New(rand.NewPCG(a.seed, uint64(i))))
		if err != nil {
			failed.Add(1)
		}
		return err
	})
	a.result.Requests += uploads
	a.result.Failed += int(failed.Load())
	return err
}

// sendParts writes a body in so many parts, with pauses before them, unless the reader ends before.
func sendParts(w *io.PipeWriter, body []byte, parts int, r *rand.Rand) {
	size := (len(body) + parts - 1) / parts
	for part := range slices.Chunk(body, size) {
		time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
		if _, err := w.Write(part); err != nil {
			return // the reader has ended with the error
		}
	}
	_ = w.Close()
}

// upload sends a body in parts and compares what the server has got.
func (a *act) upload(r *rand.Rand) error {
	body := []byte(`{"model":"sim","messages":[{"role":"user","content":"` + loadgen.Text(r, 1+r.IntN(5000)) + `"}]}`)
	parts, length := 1+r.IntN(6), int64(-1)
	if r.IntN(2) == 0 {
		length = int64(len(body))
	}
	pipe, w := io.Pipe()
	go sendParts(w, body, parts, r)
	req, err := http.NewRequestWithContext(a.ctx, http.MethodPost, a.site.Gateway.URL()+"/sim/echo", pipe)
	if err != nil {
		return err
	}
	req.ContentLength = length
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(resp.Body); err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	if got := gjson.GetBytes(answer.Bytes(), "sha256").String(); got != hex.EncodeToString(sum[:]) {
		return fmt.Errorf("a body of %d bytes in %d parts arrived changed (reason %s): %s %.200s",
			len(body), parts, resp.Header.Get("x-warmgate-reason"), resp.Status, answer.Bytes())
	}
	return nil
}
