package screen

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/warmgate/warmgate/internal/live"
)

// Model is the screen: what was shown last, and what the keys have chosen. Its messages are frames, as live.Frame, and
// those of the terminal.
type Model struct {
	style         Style
	frame         *live.Frame
	width, height int
	order         int  // in orders
	at            int  // gateway that is shown; -1: all together
	top           int  // line of it that is shown first
	paused, help  bool // frames do not change what is shown; the keys are explained
}

// New returns a screen that waits for frames. All gateways are shown together.
func New(s Style) Model { return Model{style: s, width: 80, height: 24, at: -1} }

// Init implements [tea.Model].
func (Model) Init() tea.Cmd { return nil }

// Update implements [tea.Model].
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case live.Frame:
		if !m.paused {
			m.frame = &msg
		}
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		if msg.String() == "q" || msg.String() == "ctrl+c" {
			return m, tea.Quit
		}
		m.press(msg.String())
	}
	m.top = max(0, min(m.top, len(m.body())-m.room()))
	return m, nil
}

// press does what a key says.
func (m *Model) press(key string) {
	if m.help {
		m.help = false
		return
	}
	switch key {
	case "?":
		m.help, m.top = true, 0
	case "p", "space":
		m.paused = !m.paused
	case "g":
		if m.top = 0; m.at < 0 {
			m.at = 0
		} else {
			m.at = -1
		}
	case "right", "tab":
		m.turn(1)
	case "left", "shift+tab":
		m.turn(-1)
	case "down":
		m.top++
	case "up":
		m.top--
	case "pgdown":
		m.top += m.room()
	case "pgup":
		m.top -= m.room()
	case "home":
		m.top = 0
	case "end":
		m.top = 1 << 20
	default:
		if i := slices.IndexFunc(orders, func(o order) bool { return o.key == key }); i >= 0 {
			m.order = i
		}
	}
}

// turn shows another gateway.
func (m *Model) turn(by int) {
	if m.frame != nil && len(m.frame.Gateways) > 0 {
		n := len(m.frame.Gateways)
		m.at, m.top = (m.at+1+by+n+1)%(n+1)-1, 0
	}
}

// room is how many lines the body has, between title and keys.
func (m *Model) room() int { return max(1, m.height-2) }

// body returns the lines between title and keys, also those that do not fit.
func (m *Model) body() []string {
	switch {
	case m.help:
		return help()
	case m.frame == nil:
		return []string{"Waiting for the first answers."}
	case len(m.frame.Gateways) == 1:
		return m.style.gateway(&m.frame.Gateways[0], orders[m.order], m.width)
	case m.at >= 0 && m.at < len(m.frame.Gateways):
		return m.style.gateway(&m.frame.Gateways[m.at], orders[m.order], m.width)
	}
	sum := live.Sum(m.frame)
	return m.style.gateway(&sum, orders[m.order], m.width)
}

// help explains the keys.
func help() []string {
	var sorts []string
	for _, o := range orders {
		sorts = append(sorts, o.key+" "+o.name)
	}
	return []string{
		"g            all gateways together, or one of them",
		"left, right  the gateway before, the next one",
		"up, down     scroll, as do page up, page down, home and end",
		"p, space     pause, go on",
		"sort by      " + strings.Join(sorts, ", "),
		"q            quit",
		"",
		"in flight    requests that the plugin counts at the endpoint, and its cap",
		"running      requests that its engine computes, waiting: that wait in the engine",
		"cached       share of prompts expected in KV caches, and that reported",
		"",
		"A - is not known: what engines do, caps and TTFT come from the plugin's own API,",
		"which lb_config.inspect switches on.",
	}
}

// View implements [tea.Model].
func (m Model) View() tea.View {
	v := tea.NewView(m.screen())
	v.AltScreen, v.WindowTitle = true, "warmgate top"
	return v
}

// screen returns the whole screen.
func (m *Model) screen() string {
	lines := m.body()
	lines = lines[min(m.top, len(lines)):]
	if len(lines) > m.room() {
		lines = lines[:m.room()]
	}
	out := append([]string{m.style.paint(m.title(), bold)}, lines...)
	for len(out) < m.room()+1 {
		out = append(out, "")
	}
	out = append(out, m.style.paint("q quit  ? help  g gateways  p pause  a f r w k h sort", dim))
	out = out[:min(len(out), m.height)]
	for i := range out {
		out[i] = ansi.Truncate(out[i], m.width, "")
	}
	return strings.Join(out, "\n")
}

// title is the first line.
func (m *Model) title() string {
	if m.frame == nil {
		return "warmgate top"
	}
	var endpoints, inFlight, waiting int64
	var perS, refusedS float64
	sum := live.Sum(m.frame)
	for i := range sum.Clusters {
		c := &sum.Clusters[i]
		endpoints += int64(len(c.Endpoints))
		perS, refusedS = perS+c.PerS, refusedS+c.RefusedS
		for j := range c.Endpoints {
			inFlight += c.Endpoints[j].Requests
		}
		for _, class := range c.Classes {
			waiting += class.Waiting
		}
	}
	up := 0
	for i := range m.frame.Gateways {
		if m.frame.Gateways[i].Up {
			up++
		}
	}
	text := fmt.Sprintf("%s  %d/%d up  %d endpoints  %s in flight  %s queued  %s/s  refused %s/s",
		clock(m.frame), up, len(m.frame.Gateways), endpoints, number(float64(inFlight)), number(float64(waiting)),
		number(perS), number(refusedS))
	if m.paused {
		text = "paused " + text
	}
	return text
}
