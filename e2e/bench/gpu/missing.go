package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// machine is how programs of this machine are found and asked.
type machine struct {
	look func(program string) (path string, err error)
	ask  func(ctx context.Context, program string, args ...string) (output string, err error)
	env  func(name string) (value string, set bool)
}

func thisMachine() *machine {
	return &machine{look: exec.LookPath, ask: ask, env: os.LookupEnv}
}

// ask runs a program and returns what it prints, or as an error what it complains of.
func ask(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w %s", err, lastLine(complaint.String()+string(out)))
	}
	return strings.TrimSpace(string(out)), err
}

// lastLine returns the last line of a text that is not blank: Python's errors end with what went wrong.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// Programs beside Python.
const (
	smi        = "nvidia-smi"
	mpsControl = "nvidia-cuda-mps-control"
)

// card is a GPU.
type card struct {
	index   int // as nvidia-smi counts
	uuid    string
	name    string
	driver  string
	freeMiB int
}

// cardsFor returns the GPUs that are used, or an error that says all that is missing.
func (m *machine) cardsFor(ctx context.Context, s *settings) ([]card, error) {
	cards, err := m.cards(ctx)
	missing := []error{err, m.lacksVLLM(ctx, s)}
	if err == nil {
		cards = s.choose(cards)
		each := s.shares(cards)
		if _, err := m.look(mpsControl); each > 1 && err != nil {
			missing = append(missing, fmt.Errorf("no %s, by which %d servers share a GPU: want CUDA's Multi-Process "+
				"Service in PATH, or %d GPUs", mpsControl, each, s.engines))
		}
		for _, c := range cards {
			if need := each * s.needMiB(); c.freeMiB < need {
				missing = append(missing, fmt.Errorf("GPU %d, %s, has %d MiB free, and %d servers take about %d: "+
					"want a larger one, a smaller -kv, or fewer -engines", c.index, c.name, c.freeMiB, each, need))
			}
		}
	}
	if err := errors.Join(missing...); err != nil {
		return nil, fmt.Errorf("this machine lacks something:\n%w", err)
	}
	return cards, nil
}

// cards returns all GPUs that CUDA may use, those with most free memory first.
func (m *machine) cards(ctx context.Context) ([]card, error) {
	if _, err := m.look(smi); err != nil {
		return nil, fmt.Errorf("no %s in PATH: want an NVIDIA GPU and its driver", smi)
	}
	text, err := m.ask(ctx, smi, "--query-gpu=index,uuid,driver_version,memory.free,name",
		"--format=csv,noheader,nounits")
	if err != nil {
		return nil, fmt.Errorf("%s: %w: want an NVIDIA GPU and its driver", smi, err)
	}
	var cards []card
	for line := range strings.Lines(text) {
		c, err := parseCard(line)
		if err != nil {
			return nil, err
		}
		cards = append(cards, c)
	}
	if len(cards) == 0 {
		return nil, fmt.Errorf("%s lists no GPU", smi)
	}
	if list, set := m.env(visibleDevices); set {
		if cards, err = visible(cards, list); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(cards, func(a, b card) int { return cmp.Compare(b.freeMiB, a.freeMiB) })
	return cards, nil
}

// visibleDevices in the environment has the GPUs that CUDA may use.
const visibleDevices = "CUDA_VISIBLE_DEVICES"

// visible returns the GPUs of a list of their numbers, or of UUIDs or what these begin with.
func visible(cards []card, list string) ([]card, error) {
	var listed []card
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		var found []card
		for _, c := range cards {
			if name == strconv.Itoa(c.index) || strings.HasPrefix(name, "GPU-") && strings.HasPrefix(c.uuid, name) {
				found = append(found, c)
			}
		}
		if len(found) != 1 {
			return nil, fmt.Errorf("%s is %q: want numbers or UUIDs that %s lists, separated by commas, it lists %d "+
				"GPUs %q", visibleDevices, list, smi, len(found), name)
		}
		if !slices.Contains(listed, found[0]) {
			listed = append(listed, found[0])
		}
	}
	return listed, nil
}

// parseCard reads a line of nvidia-smi.
func parseCard(line string) (c card, err error) {
	fields := strings.SplitN(strings.TrimSpace(line), ", ", 5)
	if len(fields) != 5 {
		return c, fmt.Errorf("%s printed %q, want number, UUID, driver, free memory and name", smi, line)
	}
	index, err := strconv.Atoi(fields[0])
	free, err2 := strconv.Atoi(fields[3])
	if err = errors.Join(err, err2); err != nil { // such as [N/A] of a GPU that is divided by MIG
		return c, fmt.Errorf("%s printed %q: %w", smi, line, err)
	}
	return card{index: index, uuid: fields[1], name: fields[4], driver: fields[2], freeMiB: free}, nil
}

// lacksVLLM returns an error unless Python has vLLM of the version that is wanted.
func (m *machine) lacksVLLM(ctx context.Context, s *settings) error {
	if _, err := m.look(s.python); err != nil {
		return fmt.Errorf("no %s in PATH: want a Python with vllm==%s, or the path of one as -python", s.python,
			s.version)
	}
	got, err := m.ask(ctx, s.python, "-c", "from importlib.metadata import version; print(version('vllm'))")
	switch {
	case err != nil:
		return fmt.Errorf("%s has no vLLM (%w): pip install vllm==%s, or name another Python by -python", s.python, err,
			s.version)
	case got != s.version:
		return fmt.Errorf("%s has vLLM %s: pip install vllm==%s, or say -vllm %s, which measures something else",
			s.python, got, s.version, got)
	}
	return nil
}

// choose returns the GPUs that are used.
func (s *settings) choose(cards []card) []card {
	n := min(len(cards), s.engines)
	if s.cards > 0 {
		n = min(n, s.cards)
	}
	return cards[:n]
}

// shares returns how many servers a GPU has at most.
func (s *settings) shares(cards []card) int { return (s.engines + len(cards) - 1) / len(cards) }
