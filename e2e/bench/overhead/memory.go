package overhead

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// memory is what the memory test saw. Sizes are in bytes.
type memory struct {
	Requests int     `json:"requests"`
	BodyKiB  int     `json:"body_kib"`
	VMs      int     `json:"vms"`
	Early    int64   `json:"vm_bytes_early"` // the largest VM after a tenth of the requests
	Late     int64   `json:"vm_bytes_late"`  // and after all of them
	Points   []int64 `json:"vm_bytes"`       // after each tenth
	RSSEarly int64   `json:"rss_early"`
	RSSLate  int64   `json:"rss_late"`
	RSSNone  int64   `json:"rss_no_plugin"` // the gateway without a plugin, for comparison
}

// watchMemory plays many requests at the gateway that scans bodies and measures its memory after every tenth.
func watchMemory(ctx context.Context, variants []*variant, s settings) (*memory, error) {
	out := &memory{Requests: s.memory, BodyKiB: s.memoryBody}
	request := chatRequest(s.memoryBody << 10)
	var err error
	for _, v := range variants {
		switch v.name {
		case none:
			if out.RSSNone, err = v.gateway.RSS(); err != nil {
				return nil, err
			}
		case tokens:
			if err := out.watch(ctx, v, request, s); err != nil {
				return nil, err
			}
		}
	}
	out.Early, out.Late = out.Points[0], out.Points[len(out.Points)-1]
	fmt.Println(out.describe())
	return out, nil
}

func (m *memory) watch(ctx context.Context, v *variant, request []byte, s settings) error {
	const steps = 10
	for step := range steps {
		if _, err := v.load(ctx, s.connections, s.memory/steps, request); err != nil {
			return err
		}
		vms, err := linearMemories(v.gateway.PID())
		if err != nil {
			return err
		}
		if len(vms) == 0 {
			return fmt.Errorf("memory test: no Wasm memory found in process %d", v.gateway.PID())
		}
		rss, err := v.gateway.RSS()
		if err != nil {
			return err
		}
		if step == 0 {
			m.RSSEarly = rss
		}
		m.RSSLate, m.VMs = rss, len(vms)
		m.Points = append(m.Points, slices.Max(vms))
	}
	return nil
}

func (m *memory) describe() string {
	const mib = 1 << 20
	return fmt.Sprintf("memory: %d requests of %d KiB; largest of %d VMs %.1f MiB after a tenth, %.1f MiB at the "+
		"end; Envoy's RSS %d, then %d MiB (%d without plugin)",
		m.Requests, m.BodyKiB, m.VMs, float64(m.Early)/mib, float64(m.Late)/mib, m.RSSEarly/mib, m.RSSLate/mib,
		m.RSSNone/mib)
}

// linearMemories returns the sizes of the Wasm memories in a process. V8 reserves gigabytes of address space for each,
// so that a wild access hits a guard page, and makes its beginning writable as the memory grows: a writable mapping
// that is followed by such a reservation is a memory, and its size is what the VM has taken so far. It never shrinks.
func linearMemories(pid int) ([]int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return parseMaps(f)
}

// guardSize is less than any reservation that V8 makes for a memory, and more than any other mapping of Envoy.
const guardSize = 3 << 30

type mapping struct {
	start, end uint64
	writable   bool
}

func parseMaps(r io.Reader) ([]int64, error) {
	var out []int64
	var last mapping
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		m, err := parseMapping(lines.Text())
		if err != nil {
			return nil, err
		}
		if !m.writable && m.end-m.start >= guardSize && last.writable && last.end == m.start {
			out = append(out, int64(last.end-last.start))
		}
		last = m
	}
	return out, lines.Err()
}

// parseMapping reads "7f00-7f10 rw-p 00000000 00:00 0 name".
func parseMapping(line string) (mapping, error) {
	var m mapping
	span, rest, _ := strings.Cut(line, " ")
	from, to, ok := strings.Cut(span, "-")
	if !ok || len(rest) < 4 {
		return m, fmt.Errorf("memory map line %q", line)
	}
	var err error
	if m.start, err = strconv.ParseUint(from, 16, 64); err != nil {
		return m, err
	}
	m.end, err = strconv.ParseUint(to, 16, 64)
	m.writable = rest[1] == 'w'
	return m, err
}
