package page

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"regexp"
	"strings"

	"github.com/warmgate/warmgate/internal/live"
	"github.com/warmgate/warmgate/internal/state"
)

// keptDecisions is how many new decisions of a gateway a record keeps of each frame.
const keptDecisions = 4

// files matches what index.html loads; a record has it inside.
var files = regexp.MustCompile(`(?s)<!-- files -->.*<!-- end of files -->`)

// imports matches an import of one of the page's own modules.
var imports = regexp.MustCompile(`(?m)^import \{[^}]*\} from "\./([a-z]+\.js)";\n`)

// exports matches what makes a name known to other modules.
var exports = regexp.MustCompile(`(?m)^export `)

// Record writes a page that plays frames, and needs nothing but itself. Of decisions it has a few of each frame.
func Record(w io.Writer, frames []live.Frame, facts Facts) error {
	record, err := json.Marshal(struct {
		Facts  Facts        `json:"facts"`
		Frames []live.Frame `json:"frames"`
	}{facts, fewer(frames)})
	if err != nil {
		return err
	}
	plots, own := file("uPlot.iife.min.js"), bundle("main.js", map[string]bool{})
	css := file("uPlot.min.css") + file("style.css")
	allowed := "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; " +
		"script-src " + hash(plots) + " " + hash(own) + "; style-src " + hash(css)
	inside := `<meta http-equiv="Content-Security-Policy" content="` + allowed + "\">\n" +
		"<style>" + css + "</style>\n" +
		// json.Marshal writes no < that could end the element.
		`<script type="application/json" id="record">` + string(record) + "</script>\n" +
		"<script>" + plots + "</script>\n" +
		`<script type="module">` + own + "</script>"
	_, err = io.WriteString(w, files.ReplaceAllLiteralString(file("index.html"), inside))
	return err
}

// fewer returns frames with few of their decisions, so that a record of minutes stays small. A decision that is kept
// is kept with all that becomes known of it.
func fewer(frames []live.Frame) []live.Frame {
	short := make([]live.Frame, len(frames))
	kept := map[[2]string]bool{} // by gateway and ID: whether it is
	for i, f := range frames {
		short[i] = f
		short[i].Gateways = nil
		for _, g := range f.Gateways {
			fresh := 0
			var decisions []state.Decision
			for _, d := range g.Decisions {
				id := [2]string{g.Name, d.ID}
				if _, known := kept[id]; !known {
					kept[id] = fresh < keptDecisions
					fresh++
				}
				if kept[id] {
					decisions = append(decisions, d)
				}
			}
			g.Decisions = decisions
			short[i].Gateways = append(short[i].Gateways, g)
		}
	}
	return short
}

// bundle returns a module of the page as one text with all that it imports. Names are unique over all modules.
func bundle(name string, done map[string]bool) string {
	if done[name] {
		return ""
	}
	done[name] = true
	text := file(name)
	var before strings.Builder
	for _, m := range imports.FindAllStringSubmatch(text, -1) {
		before.WriteString(bundle(m[1], done))
	}
	return before.String() + exports.ReplaceAllString(imports.ReplaceAllString(text, ""), "")
}

// file returns a file of the page.
func file(name string) string {
	text, err := web.ReadFile("web/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}

// hash names a text in a Content-Security-Policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
