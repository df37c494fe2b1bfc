package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/warmgate/warmgate/internal/accesslog"
	"github.com/warmgate/warmgate/internal/mooncake"
	"github.com/warmgate/warmgate/internal/simulate"
)

// peeked is how much of a file is looked at to see what it is.
const peeked = 1 << 20

// openPlain opens a file, or the standard input, and unpacks what is compressed with gzip, as its content says.
func openPlain(name string, stdin io.Reader) (plain *bufio.Reader, closeFile func() error, err error) {
	from, closeFile := stdin, func() error { return nil }
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, nil, err
		}
		from, closeFile = file, file.Close
	}
	plain = bufio.NewReaderSize(from, peeked)
	if magic, _ := plain.Peek(2); string(magic) == "\x1f\x8b" {
		unpacked, err := gzip.NewReader(plain)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("%s: %w", name, err), closeFile())
		}
		plain = bufio.NewReaderSize(whole{unpacked}, peeked)
	}
	return plain, closeFile, nil
}

// whole reads what is compressed, and says so where its end is missing.
type whole struct{ *gzip.Reader }

func (w whole) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err == io.ErrUnexpectedEOF {
		err = errors.New("the compressed file is cut off")
	}
	return n, err
}

// isMooncake reports whether the content is a trace in Mooncake's form, by its first line.
func isMooncake(from *bufio.Reader) bool {
	begin, _ := from.Peek(peeked) // what is shorter comes with an error
	line, _, _ := bytes.Cut(bytes.TrimSpace(begin), []byte("\n"))
	var members map[string]json.RawMessage
	return json.Unmarshal(line, &members) == nil && members["hash_ids"] != nil
}

// readTrace reads the trace that is to be replayed, faster by a factor. What is to be known of it is written to notes.
func readTrace(name string, speed float64, stdin io.Reader, notes io.Writer) (*simulate.Recording, error) {
	from, closeFile, err := openPlain(name, stdin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = closeFile() }() // all of it was read
	var load *simulate.Recording
	if isMooncake(from) {
		trace, err := mooncake.Parse(from)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		load = simulate.FromMooncake(trace)
	} else {
		log, err := accesslog.Parse(from)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		played := simulate.FromLog(log.Requests)
		printLog(notes, name, log, played)
		if len(played.Requests) == 0 {
			return nil, fmt.Errorf("%s: no line says how long a prompt was", name)
		}
		load = played.Recording()
	}
	load.Speed = speed
	const longest = 365 * 24 * time.Hour
	if took := load.Took().Seconds() / speed; took > longest.Seconds() {
		return nil, fmt.Errorf("the trace would take %.0f s, want a year at most, %.0f s", took, longest.Seconds())
	}
	return load, nil
}

// printLog says what was read of an access log, and what it does not say.
func printLog(notes io.Writer, name string, log *accesslog.Log, played *simulate.AccessLog) {
	fmt.Fprintf(notes, "%s: %d requests in %v\n", name, len(played.Requests),
		log.Requests[len(log.Requests)-1].Start.Sub(log.Requests[0].Start).Round(time.Millisecond))
	for _, of := range []struct {
		n    int
		what string
	}{
		{log.Others, "lines are not about requests that the plugin has seen"},
		{played.Unsized, "requests are left out: nothing says how long their prompts were"},
		{played.Estimated, "requests have shown no usage: lengths are the gateway's estimates"},
		{played.Alone, "prompts have no fingerprint: they are played as if none began like another"},
	} {
		if of.n > 0 {
			fmt.Fprintf(notes, "%s: %d %s\n", name, of.n, of.what)
		}
	}
	if log.Bad > 0 {
		fmt.Fprintf(notes, "%s: %d lines could not be read, the first one: %v\n", name, log.Bad, log.FirstBad)
	}
}
