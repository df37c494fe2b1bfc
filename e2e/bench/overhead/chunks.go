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
	"github.com/warmgate/warmgate/e2e/wait"
)

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
