package overhead

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
	"github.com/warmgate/warmgate/lb/prompt/prompttest"
)

// split is the cost of a request with a prompt under prefix_cache, in µs of Envoy's CPU time, by its parts. Each figure
// is a difference between two variants in the same round, median over the rounds.
type split struct {
	KiB   int          `json:"kib"`
	Body  bench.Spread `json:"body_us"`  // any plugin that holds the request and reads its body: readbody - none
	Check bench.Spread `json:"check_us"` // one pass over the JSON, which finds the prompt: scan - readbody
	Walk  bench.Spread `json:"walk_us"`  // finding what of the prompt is text, without its hashing: chain - scan - hash + readbody
	Hash  bench.Spread `json:"hash_us"`  // hashing as many bytes: hash - readbody
	Rest  bench.Spread `json:"rest_us"`  // looking up, choosing, counting and noting, nearly all host calls: prefix - chain
	All   bench.Spread `json:"all_us"`   // prefix - none
	// Shares of All.
	JSON  float64 `json:"json_share"` // Check and Walk
	Hashy float64 `json:"hash_share"`
	Calls float64 `json:"host_calls_share"` // Body and Rest
}

// splitOf divides the cost of prefix.
func splitOf(kib int, runs map[string][]measurement) split {
	diff := func(terms ...string) bench.Spread { return difference(runs, terms...) }
	s := split{
		KiB: kib, Body: diff(readbody, none), Check: diff(scan, readbody),
		Hash: diff(hash, readbody), Rest: diff(prefix, chain),
		Walk: diff(chain, scan, readbody, hash), All: diff(prefix, none),
	}
	s.JSON = (s.Check.Median + s.Walk.Median) / s.All.Median
	s.Hashy = s.Hash.Median / s.All.Median
	s.Calls = (s.Body.Median + s.Rest.Median) / s.All.Median
	return s
}

// measurePrompts measures what the parts of reading a prompt cost.
func (st *stage) measurePrompts(ctx context.Context) ([]split, error) {
	variants := st.named(none, readbody, scan, chain, hash, prefix)
	var out []split
	for _, kib := range st.rep.settings.bodies {
		runs, err := st.measureBodies(ctx, variants, kib)
		if err != nil {
			return nil, err
		}
		out = append(out, splitOf(kib, runs))
		fmt.Printf("%3d KiB prompts: prefix costs %s µs\n", kib, out[len(out)-1].All.Format("%.0f"))
	}
	return out, nil
}

func promptsTable(splits []split) *bench.Table {
	t := &bench.Table{Head: []string{
		"prefix, of a request: median (min..max)", "CPU µs over none", "body into " +
			"the plugin", "JSON checked", "JSON walked", "hashed",
		"chosen, counted, recorded", "JSON, %", "hashing, %", "host calls, %",
	}}
	percent := func(share float64) string { return fmt.Sprintf("%.0f", 100*share) }
	for _, s := range splits {
		t.Add(fmt.Sprintf("%d KiB", s.KiB), s.All.Format("%.0f"), s.Body.Format("%.0f"), s.Check.Format("%.0f"),
			s.Walk.Format("%.0f"),
			s.Hash.Format("%.0f"), s.Rest.Format("%.0f"), percent(s.JSON), percent(s.Hashy), percent(s.Calls))
	}
	return t
}

const (
	// hostileBody is the length of hostile bodies in bytes: as much as is inspected, unless it is configured otherwise.
	hostileBody = 256 << 10
	// hostileLimit is the limit of the cost of one, in µs.
	hostileLimit = 2000
)

// hostile is the cost of a request whose body was made to be expensive.
type hostile struct {
	Name string       `json:"body"`
	CPU  bench.Spread `json:"us"` // Envoy's CPU time with prefix over readbody, µs
}

// measureHostile measures what hostile bodies cost with prefix_cache beyond being read.
func (st *stage) measureHostile(ctx context.Context) ([]hostile, error) {
	const count = 400 // requests resolve 25 µs
	variants, s := st.named(readbody, prefix), st.rep.settings
	var out []hostile
	for _, b := range prompttest.Hostile(hostileBody) {
		request := loadgen.PostRequest("llm.example.com", path, b.JSON)
		runs, err := st.rounds(variants, func(v *variant) (measurement, error) {
			return v.play(ctx, s.connections, count, request, "chosen|body_malformed|body_ambiguous")
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Name, err)
		}
		out = append(out, hostile{b.Name, difference(runs, prefix, readbody)})
		fmt.Printf("hostile: %s: %s µs\n", b.Name, out[len(out)-1].CPU.Format("%.0f"))
	}
	return out, nil
}

// worst returns the hostile body that costs most.
func worst(list []hostile) (most hostile) {
	for _, h := range list {
		if h.CPU.Median >= most.CPU.Median {
			most = h
		}
	}
	return most
}

func hostileTable(list []hostile) *bench.Table {
	t := &bench.Table{Head: []string{"hostile body of 256 KiB: median (min..max)", "CPU µs over readbody"}}
	for _, h := range list {
		t.Add(h.Name, h.CPU.Format("%.0f"))
	}
	return t
}

// The parts of a streaming answer, as an engine writes it.
const (
	event = `data: {"id":"chatcmpl-4f1c2d7e9b0a4c55","object":"chat.completion.chunk","created":1760000000,"model":"sim",` +
		`"choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	lastEvent = `data: {"id":"chatcmpl-4f1c2d7e9b0a4c55","object":"chat.completion.chunk","created":1760000000,"model":"sim",` +
		`"choices":[],"usage":{"prompt_tokens":900,"total_tokens":1100,"completion_tokens":200,` +
		`"prompt_tokens_details":{"cached_tokens":880}}}` + "\n\ndata: [DONE]\n\n"
)

// streamer is an endpoint that answers with as many events as the request orders, each in a chunk of its own: it writes
// one when the client has read the previous one.
type streamer struct {
	server *httptest.Server
	read   []chan struct{} // by stream: the client has read an event
}

// Headers that control the streamer.
const (
	headerStream = "x-bench-stream"
	headerEvents = "x-bench-events"
)

func startStreamer(streams int) *streamer {
	s := &streamer{}
	for range streams {
		s.read = append(s.read, make(chan struct{}, 1))
	}
	s.server = httptest.NewServer(s)
	return s
}

// ServeHTTP implements http.Handler.
func (s *streamer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	stream, err := strconv.Atoi(r.Header.Get(headerStream))
	events, err2 := strconv.Atoi(r.Header.Get(headerEvents))
	if err != nil || err2 != nil || stream < 0 || stream >= len(s.read) {
		http.Error(w, "not a request of the benchmark", http.StatusBadRequest)
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	s.answer(r.Context(), w, stream, events)
}

// answer writes events until the client has read all or is gone.
func (s *streamer) answer(ctx context.Context, w http.ResponseWriter, stream, events int) {
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(w)
	for i := 1; i <= events; i++ {
		text := event
		if i == events {
			text = lastEvent
		}
		if _, err := io.WriteString(w, text); err != nil || flusher.Flush() != nil {
			return
		}
		select {
		case <-s.read[stream]:
		case <-ctx.Done():
			return
		}
	}
}

// listen requests an answer of so many events on one of the streams and reads it.
func (s *streamer) listen(ctx context.Context, c *http.Client, url string, body []byte, stream, events int) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set(headerStream, strconv.Itoa(stream))
	r.Header.Set(headerEvents, strconv.Itoa(events))
	resp, err := c.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return s.readEvents(bufio.NewReader(resp.Body), stream, events)
}

// readEvents reads an answer of so many events and signals each to the streamer.
func (s *streamer) readEvents(in *bufio.Reader, stream, events int) error {
	for i := 1; i <= events; i++ {
		ends := 1
		if i == events {
			ends = 2 // the word that the stream is done
		}
		for ends > 0 {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return fmt.Errorf("event %d of %d: %w", i, events, err)
			}
			if len(line) == 1 {
				ends--
			}
		}
		s.read[stream] <- struct{}{}
	}
	if _, err := in.ReadByte(); err != io.EOF {
		return fmt.Errorf("something follows the last event: %v", err)
	}
	return nil
}

// play listens to count answers, on all streams at once, and returns Envoy's CPU time per answer in µs.
func (s *streamer) play(ctx context.Context, v *variant, body []byte, count, events int) (float64, error) {
	used, err := v.cpuDuring(func() error { return s.listenAll(ctx, v.gateway.URL(), body, count, events) })
	if err != nil {
		return 0, fmt.Errorf("%s: %w", v.name, err)
	}
	return float64(used.Microseconds()) / float64(count), nil
}

func (s *streamer) listenAll(ctx context.Context, url string, body []byte, count, events int) error {
	return wait.All(len(s.read), func(stream int) (err error) {
		c := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
		defer c.CloseIdleConnections()
		for i := stream; i < count && err == nil; i += len(s.read) {
			err = s.listen(ctx, c, url, body, stream, events)
		}
		return err
	})
}

// measureChunks returns the CPU time of Envoy per chunk of a streaming answer in µs, by variant: of a long answer, less
// that of one of a single event, divided by the chunks that it has more.
func (st *stage) measureChunks(ctx context.Context) (map[string]bench.Spread, error) {
	const short, long = 1, 401
	s := startStreamer(st.rep.settings.connections)
	defer s.server.Close()
	addr := harness.Endpoint{Addr: strings.TrimPrefix(s.server.URL, "http://")}
	if err := setEndpoints(ctx, st.variants, []harness.Endpoint{addr}); err != nil {
		return nil, err
	}
	body := streamBody()
	budget := float64(st.rep.settings.cpu.Microseconds())
	runs, err := st.rounds(st.named(chunkVariants...), func(v *variant) (measurement, error) {
		const shortCost, chunkCost = 200, 25 // µs, roughly
		once, err := s.play(ctx, v, body, int(budget/4/shortCost), short)
		if err != nil {
			return measurement{}, err
		}
		many, err := s.play(ctx, v, body, int(budget/chunkCost/long)+1, long)
		return measurement{cpu: (many - once) / (long - short)}, err
	})
	if err != nil {
		return nil, err
	}
	if err := usageWasRead(ctx, st.named(prefix)[0]); err != nil {
		return nil, err
	}
	out := map[string]bench.Spread{usage: difference(runs, prefix, tokens)}
	for _, name := range chunkVariants {
		out[name] = bench.SpreadBy(runs[name], cpuOf)
	}
	return out, nil
}

// streamBody returns the body of a request for a streaming answer.
func streamBody() []byte {
	_, body, _ := bytes.Cut(chatRequest(4<<10), []byte("\r\n\r\n"))
	return bytes.Replace(body, []byte(`{`), []byte(`{"stream":true,`), 1)
}

// usageWasRead makes sure that there was something to measure.
func usageWasRead(ctx context.Context, v *variant) error {
	n, err := v.gateway.Sum(ctx, `warmgate_cached_tokens_total`)
	if err == nil && n == 0 {
		err = fmt.Errorf("%s: the usage in the answers was not read", v.name)
	}
	return err
}

// chunkVariants are those whose chunks are measured: no plugin, one that does nothing with an answer, Warmgate that
// does not read answers, and Warmgate that does.
var chunkVariants = []string{none, readbody, tokens, prefix}

// usage is the cost of looking for the usage: prefix less tokens.
const usage = "usage"

func chunksTable(chunks map[string]bench.Spread) *bench.Table {
	t := &bench.Table{Head: []string{"chunk of a streaming answer: median (min..max)", "CPU µs"}}
	for _, name := range chunkVariants {
		t.Add(name, chunks[name].Format("%.2f"))
	}
	t.Add("looking for the usage: prefix less tokens", chunks[usage].Format("%.2f"))
	return t
}
