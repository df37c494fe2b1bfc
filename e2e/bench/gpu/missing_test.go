package gpu

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

// usual are settings as flags make them.
func usual() settings {
	return settings{python: "python3", version: vllmVersion, shape: "llama-3b", engines: 4, cacheGB: 10}
}

// fake is a machine with these programs, whose output is here; "!" in front of it is an error.
func fake(programs map[string]string) *machine {
	return &machine{
		look: func(program string) (string, error) {
			if _, ok := programs[program]; !ok {
				return "", errors.New("not found")
			}
			return "/bin/" + program, nil
		},
		ask: func(_ context.Context, program string, _ ...string) (string, error) {
			if text, failed := strings.CutPrefix(programs[program], "!"); failed {
				return "", errors.New(text)
			}
			return programs[program], nil
		},
	}
}

const (
	h200 = "0, GPU-0a, 570.86.15, 143156, NVIDIA H200"
	l4   = "0, GPU-0a, 570.86.15, 22500, NVIDIA L4"
	two  = "0, GPU-0a, 570.86.15, 30000, NVIDIA A\n1, GPU-1b, 570.86.15, 80000, NVIDIA B, large"
)

// lack is what a machine may lack.
type lack struct {
	smi, vllm string // what they print; "-": there is no such program
	noMPS     bool
	visible   string // CUDA_VISIBLE_DEVICES; "": it is not set
	change    func(s *settings)
	want      string // texts that are said, in their order; "": nothing is missing
	cards     []int  // that are used
}

var lacks = map[string]lack{
	"four share one": {smi: h200, vllm: "0.26.0", cards: []int{0}},
	"nothing is there": {
		smi: "-", vllm: "-", want: "no nvidia-smi in PATH|no python3 in PATH: want a Python with vllm==0.26.0",
	},
	"a broken driver": {
		smi: "!exit status 18 version mismatch", vllm: "0.26.0", want: "version mismatch: want an NVIDIA GPU",
	},
	"no GPU":        {smi: "", vllm: "0.26.0", want: "nvidia-smi lists no GPU"},
	"not a list":    {smi: "No devices were found", vllm: "0.26.0", want: `printed "No devices were found"`},
	"a divided GPU": {smi: "0, GPU-0a, 570, [N/A], NVIDIA H200", vllm: "0.26.0", want: `"[N/A]"`},
	"no vLLM": {
		smi: h200, vllm: "!exit status 1 PackageNotFoundError",
		want: "python3 has no vLLM (exit status 1 PackageNotFoundError): pip install vllm==0.26.0",
	},
	"another vLLM": {
		smi: h200, vllm: "0.32.0", want: "has vLLM 0.32.0: pip install vllm==0.26.0, or say -vllm 0.32.0",
	},
	"another that is wanted": {
		smi: h200, vllm: "0.32.0", change: func(s *settings) { s.version = "0.32.0" }, cards: []int{0},
	},
	"another Python": {
		smi: h200, vllm: "0.26.0", change: func(s *settings) { s.python = "/x/python" },
		want: "no /x/python in PATH",
	},
	"no MPS": {
		smi: h200, vllm: "0.26.0", noMPS: true,
		want: "no nvidia-cuda-mps-control, by which 4 servers share a GPU: want CUDA's |, or 4 GPUs",
	},
	"no MPS is needed": {
		smi: two, vllm: "0.26.0", noMPS: true, change: func(s *settings) { s.engines = 2 }, cards: []int{1, 0},
	},
	"two share each": {
		smi: two, vllm: "0.26.0", want: "GPU 0, NVIDIA A, has 30000 MiB free, and 2 servers take about 37504",
	},
	"the larger one": {smi: two, vllm: "0.26.0", change: func(s *settings) { s.cards = 1 }, cards: []int{1}},
	"too small":      {smi: l4, vllm: "0.26.0", want: "NVIDIA L4, has 22500 MiB free, and 4 servers take"},
	"all at once": {
		smi: l4, vllm: "0.25.1", noMPS: true, want: "vLLM 0.25.1|no nvidia-cuda-mps-control|NVIDIA L4",
	},
	"hidden but one":  {smi: two, vllm: "0.26.0", visible: "1", change: pair, cards: []int{1}},
	"none is hidden":  {smi: two, vllm: "0.26.0", visible: "0, GPU-1b,0", change: pair, cards: []int{1, 0}},
	"named in short":  {smi: two, vllm: "0.26.0", visible: "GPU-1", change: pair, cards: []int{1}},
	"unknown ones":    {smi: two, vllm: "0.26.0", visible: "1,2", want: `is "1,2": want numbers|lists 0 GPUs "2"`},
	"a part of a GPU": {smi: two, vllm: "0.26.0", visible: "MIG-1b", want: `lists 0 GPUs "MIG-1b"`},
	"more than one":   {smi: two, vllm: "0.26.0", visible: "GPU-", want: `lists 2 GPUs "GPU-"`},
	"all are hidden":  {smi: two, vllm: "0.26.0", visible: " ", want: `lists 0 GPUs ""`},
	"a small model": {
		smi: l4, vllm: "0.26.0", change: func(s *settings) { s.shape, s.cacheGB = "tiny", 1 }, cards: []int{0},
	},
}

// pair asks for two servers.
func pair(s *settings) { s.engines = 2 }

func TestWhatIsMissing(t *testing.T) {
	for name, c := range lacks {
		programs := map[string]string{smi: c.smi, "python3": c.vllm, mpsControl: ""}
		maps.DeleteFunc(programs, func(name, text string) bool { return text == "-" || c.noMPS && name == mpsControl })
		s := usual()
		if c.change != nil {
			c.change(&s)
		}
		m := fake(programs)
		m.env = func(string) (string, bool) { return c.visible, c.visible != "" }
		cards, err := m.cardsFor(t.Context(), &s)
		if (err == nil) != (c.want == "") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err != nil {
			inOrder(t, err.Error(), strings.Split(c.want, "|"))
		}
		var used []int
		for _, card := range cards {
			used = append(used, card.index)
		}
		if !slices.Equal(used, c.cards) {
			t.Errorf("%s: GPUs %v, want %v", name, used, c.cards)
		}
	}
}

// inOrder requires texts, one after another.
func inOrder(t *testing.T, text string, wanted []string) {
	t.Helper()
	rest := text
	for _, want := range wanted {
		_, after, found := strings.Cut(rest, want)
		if rest = after; !found {
			t.Errorf("%s\nlacks %s", text, want)
		}
	}
}

func TestRefusedSettings(t *testing.T) {
	good := usual()
	good.Rounds, good.load = 1, 0.7
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(s *settings){
		"-rounds of 1":           func(s *settings) { s.Rounds = 0 },
		"2 -engines":             func(s *settings) { s.engines = 1 },
		"-gpus":                  func(s *settings) { s.cards = -1 },
		"-sessions":              func(s *settings) { s.sessions = -1 },
		"-kv 2: want 2.82 GB":    func(s *settings) { s.cacheGB = 2 },
		"-load":                  func(s *settings) { s.load = 0 },
		`-model "huge": want ll`: func(s *settings) { s.shape = "huge" },
	} {
		s := good
		change(&s)
		if err := s.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestCommandLine holds what engines are started with, and where.
func TestCommandLine(t *testing.T) {
	s := usual()
	line := strings.Join(s.options("/m", 8000), " ")
	for _, want := range []string{
		"--port 8000", "--kv-cache-memory-bytes 10000000000", "--enable-prefix-caching", "cudagraph",
	} {
		if !strings.Contains(line, want) {
			t.Errorf("%s\nlacks %s", line, want)
		}
	}
	s.eager = true
	line = strings.Join(s.options("/m", 8000), " ")
	if !strings.Contains(line, "--enforce-eager") || strings.Contains(line, "cudagraph") {
		t.Error(line)
	}
	env := onCards([]string{"A=b"}, card{uuid: "GPU-3"}, card{uuid: "GPU-1"})
	if !slices.Contains(env, "CUDA_VISIBLE_DEVICES=GPU-3,GPU-1") || env[0] != "A=b" {
		t.Error(env)
	}
}
