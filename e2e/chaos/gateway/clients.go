package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// byTokens holds requests until their body is there.
func byTokens(bodyTimeout string) string {
	return audit.Config(`"unit":"tokens"`, `"body_timeout":"`+bodyTimeout+`"`)
}

// herd lets many clients arrive at the same moment at servers that have nothing to do, and stay. Workers decide at the
// same time and must not choose the same servers. Then all clients leave at once.
func herd(a *lab.Act) {
	for _, srv := range a.Site.Servers() {
		lab.Check(srv.SetMode(vllmsim.ModeHang))
	}
	crowd := lab.Arrive(a.Herd, 1, a.Site.Gateway.Addr())
	defer crowd.Leave()
	a.Result.Requests = a.Herd
	snap, took, err := a.Site.Agree(a.Ctx)
	for start := time.Now(); err == nil && snap.Totals().Server < int64(a.Herd) && time.Since(start) < time.Minute; {
		snap, took, err = a.Site.Agree(a.Ctx)
	}
	lab.Check(err)
	a.Result.AgreeMS = took.Milliseconds()
	came := snap.Totals().Server
	lab.FailIf(came != int64(a.Herd), "%d of %d requests reached a server", came, a.Herd)
	a.Result.Left = a.Herd
	a.Spread(snap, 2+a.Workers)
}

// leaver is a request whose client leaves at a random point, or stays.
func leaver(r *rand.Rand, id int) loadgen.Request {
	q := loadgen.Request{ID: id, MaxTokens: 1 + r.IntN(5), Stream: r.IntN(4) > 0}
	q.Body = lab.Body(loadgen.Text(r, 1+r.IntN(500)), &q)
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

// leavePoints are the states of a request in which its client may leave.
var leavePoints = []loadgen.LeavePoint{
	loadgen.MidUpload, loadgen.BeforeFirstByte, loadgen.AfterHeaders, loadgen.MidStream,
}

// clientsLeave has most clients leave: while they send, while the plugin holds their request for its body, before the
// first byte and in the middle of the answer.
func clientsLeave(a *lab.Act) {
	rate := a.Rate * 1.5
	span := time.Duration(float64(a.Leavers) / 2 / rate * float64(time.Second))
	for _, config := range []string{byTokens("1s"), byTokens("20ms"), audit.Config()} {
		lab.Check(a.Site.Gateway.PushPlugin(a.Ctx, config))
		a.Play(lab.Load{Rate: rate, Span: span * 2 / 3, Request: leaver}, nil)
		// The last clients have just left: how long are they still counted?
		a.NoteMS("released_ms", a.Agreed())
	}
}

// slowBodies sends bodies whose parts come before, at and after the time that the plugin waits for them. Every one must
// arrive as it was sent: bytes that the gateway sent twice or not at all would be another request.
func slowBodies(a *lab.Act) {
	lab.Check(a.Site.Gateway.PushPlugin(a.Ctx, byTokens("60ms")))
	uploads := max(a.Leavers/20, 20)
	a.Result.Requests += uploads
	err := lab.Try(func() {
		lab.All(uploads, func(i int) { upload(a, rand.New(rand.NewPCG(a.Seed, uint64(i)))) })
	})
	if err != nil {
		a.Result.Failed++
		lab.Check(err)
	}
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
func upload(a *lab.Act, r *rand.Rand) {
	body := []byte(`{"model":"sim","messages":[{"role":"user","content":"` + loadgen.Text(r, 1+r.IntN(5000)) + `"}]}`)
	parts, length := 1+r.IntN(6), int64(-1)
	if r.IntN(2) == 0 {
		length = int64(len(body))
	}
	pipe, w := io.Pipe()
	go sendParts(w, body, parts, r)
	req := lab.Must(http.NewRequestWithContext(a.Ctx, http.MethodPost, a.Site.Gateway.URL()+audit.EchoPath, pipe))
	req.ContentLength = length
	req.Header.Set("Content-Type", "application/json")
	resp := lab.Must(http.DefaultClient.Do(req))
	defer resp.Body.Close()
	answer := lab.Must(io.ReadAll(resp.Body))
	sum := sha256.Sum256(body)
	lab.FailIf(gjson.GetBytes(answer, "sha256").String() != hex.EncodeToString(sum[:]),
		"a body of %d bytes in %d parts arrived changed (reason %s): %s %.200s",
		len(body), parts, resp.Header.Get("x-warmgate-reason"), resp.Status, answer)
}
