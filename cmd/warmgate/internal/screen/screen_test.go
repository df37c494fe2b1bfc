package screen

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/warmgate/warmgate/internal/golden"
	"github.com/warmgate/warmgate/internal/live"
)

// frame reads a frame: two gateways, one with the plugin's API, of which one server is ejected and one full.
func frame(t *testing.T) live.Frame { return read(t, "testdata/frame.json") }

func read(t *testing.T, file string) live.Frame {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var f live.Frame
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// after returns the screen of so many columns and lines after messages; texts are keys.
func after(t *testing.T, s Style, width, height int, messages ...any) string {
	t.Helper()
	var m tea.Model = New(s)
	for _, msg := range append([]any{tea.WindowSizeMsg{Width: width, Height: height}}, messages...) {
		if key, ok := msg.(string); ok {
			msg = press(key)
		}
		m, _ = m.Update(msg)
	}
	text := m.View().Content
	lines := strings.Split(text, "\n")
	if len(lines) != height {
		t.Errorf("%d lines in a terminal of %d", len(lines), height)
	}
	for _, line := range lines {
		if ansi.StringWidth(line) > width {
			t.Errorf("%d columns: %q", ansi.StringWidth(line), line)
		}
	}
	return text
}

// press returns the message of a key.
func press(key string) tea.Msg {
	codes := map[string]rune{
		"right": tea.KeyRight, "left": tea.KeyLeft, "down": tea.KeyDown, "pgdown": tea.KeyPgDown, "end": tea.KeyEnd,
	}
	if code, ok := codes[key]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	return tea.KeyPressMsg{Code: []rune(key)[0], Text: key}
}

// TestScreens compares whole screens: usual and large ones, narrow ones, without color and Unicode.
func TestScreens(t *testing.T) {
	here := time.Local
	time.Local = time.UTC
	defer func() { time.Local = here }()
	f := frame(t)
	recorded := read(t, "../../../../internal/live/testdata/frame.json")
	full, plain := Style{Unicode: true, Color: true}, Style{Unicode: true}
	for name, got := range map[string]string{
		"80x24.txt":          after(t, plain, 80, 24, f),
		"80x24-each.txt":     after(t, plain, 80, 24, f, "g", "right"),
		"80x24-sorted.txt":   after(t, plain, 80, 24, f, "right", "w"),
		"80x24-help.txt":     after(t, plain, 80, 24, f, "?"),
		"160x50.txt":         after(t, plain, 160, 50, f),
		"160x50-color.txt":   after(t, full, 160, 50, f, "g"),
		"40x12-ascii.txt":    after(t, Style{}, 40, 12, f, "g"),
		"40x12-end.txt":      after(t, plain, 40, 12, f, "g", "end"),
		"80x24-waiting.txt":  after(t, plain, 80, 24),
		"table.txt":          Table(&f, plain, 160),
		"recorded.txt":       Table(&recorded, plain, 160),
		"80x24-recorded.txt": after(t, plain, 80, 24, recorded),
	} {
		golden.Compare(t, "testdata/"+name, got)
	}
}

// TestKeys pauses, goes on, and quits.
func TestKeys(t *testing.T) {
	f := frame(t)
	later := f
	later.Gateways = later.Gateways[:1]
	s := Style{Unicode: true}
	if got := after(t, s, 80, 24, f, "p", later); !strings.HasPrefix(got, "paused ") || !strings.Contains(got, "2/2") {
		t.Error(got)
	}
	if got := after(t, s, 80, 24, f, "p", "p", later); !strings.Contains(got, "1/1 up") {
		t.Error(got)
	}
	if got := after(t, s, 80, 24, f, "right", "right", later); !strings.Contains(got, "eu-1 (eu)") {
		t.Error("a gateway that has left is shown: " + got)
	}
	for height := range 4 {
		after(t, s, 80, height+1, f) // which looks at its lines
	}
	if after(t, s, 80, 24, f, "left") != after(t, s, 80, 24, f, "right", "right") {
		t.Error("gateways do not come in a circle")
	}
	for _, key := range []tea.KeyPressMsg{{Code: 'q', Text: "q"}, {Code: 'c', Mod: tea.ModCtrl}} {
		if _, cmd := New(s).Update(key); cmd == nil || cmd() != tea.Quit() {
			t.Errorf("%s does not quit", key)
		}
	}
}

// TestHostile shows names that are made to confuse terminals, and nothing of what they want.
func TestHostile(t *testing.T) {
	f := frame(t)
	const evil = "a\x1b[2J\x1b]0;x\a\r\n\u202e\u200b\x9b31m\xff模型"
	g := &f.Gateways[0]
	g.Name, g.Region, g.Version, g.Problems = evil, evil, evil, []string{evil + strings.Repeat("x", 300)}
	g.Clusters[0].Name, g.Clusters[0].Policy, g.Clusters[0].Classes[0].Name = evil, evil, evil
	g.Clusters[0].Endpoints[0].Addr, g.Clusters[0].Endpoints[0].Zone = evil, evil
	g.Clusters[0].Endpoints[0].Health, g.Reasons[0].Reason, g.Regions[0].Name = evil, evil, evil
	for _, s := range []Style{{}, {Unicode: true}} {
		for _, width := range []int{1, 7, 40, 80} {
			text := after(t, s, width, 30, f) + after(t, s, width, 30, f, "g")
			if at := strings.IndexFunc(text, func(r rune) bool { return isEvil(r, s) }); at >= 0 {
				t.Fatalf("%q is shown", text[at:])
			}
		}
	}
}

// isEvil reports whether a terminal might do something else than to show a character.
func isEvil(r rune, s Style) bool {
	return r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0) || strings.ContainsRune("\u202e\u200b\ufffd", r) ||
		!s.Unicode && r > '~'
}

func TestStyleOf(t *testing.T) {
	for env, want := range map[string]Style{
		"":                             {Color: true},
		"LANG=en_US.UTF-8":             {Unicode: true, Color: true},
		"LANG=C.utf8 NO_COLOR=1":       {Unicode: true},
		"LC_ALL=C LANG=en_US.UTF-8":    {Color: true},
		"LC_CTYPE=C.UTF-8 LANG=latin1": {Unicode: true, Color: true},
	} {
		got := StyleOf(func(name string) string {
			for _, v := range strings.Fields(env) {
				if key, value, _ := strings.Cut(v, "="); key == name {
					return value
				}
			}
			return ""
		})
		if got != want {
			t.Errorf("%s: %+v", env, got)
		}
	}
}

// TestFit cuts names in the middle.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		style Style
		width int
		want  string
	}{
		{Style{Unicode: true}, 30, "outbound|8000||vllm.default   "},
		{Style{Unicode: true}, 12, "outb…default"},
		{Style{}, 12, "outb..efault"},
		{Style{}, 2, "ou"},
	} {
		if got := c.style.fit("outbound|8000||vllm.default", c.width); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1.25: "1.2", 42: "42", 9999: "9999", 12345: "12k", 1.5e6: "1.5M",
		999.4e6: "999M", 999.6e6: "1G", 25e9: "25G",
	} {
		if got := number(v); got != want {
			t.Errorf("%g is written %s, want %s", v, got, want)
		}
	}
}
