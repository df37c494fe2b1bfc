package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/internal/live/page"
)

// usualAddr is where the page is, unless something else is there: as warmgate ui has it.
const usualAddr = "127.0.0.1:8899"

// serve has the page served until stop is called, and opens it where somebody can look at it.
func (d *demo) serve(ctx context.Context) (stop func()) {
	listener, err := net.Listen("tcp", usualAddr)
	if err != nil {
		listener = lab.Must(net.Listen("tcp", "127.0.0.1:0"))
	}
	server := &http.Server{Handler: d.page, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // until it is closed
	url := "http://" + listener.Addr().String() + "/"
	d.screen.line("To be seen at %s", url)
	if program := browser(runtime.GOOS, os.Getenv); program != "" {
		if err := exec.CommandContext(ctx, program, url).Start(); err != nil {
			d.screen.line("No browser is opened: %v", err)
		}
	}
	return func() {
		d.page.Close()
		lab.Check(server.Close())
	}
}

// browser returns the program that opens a page on the display of this machine, "" if there is none, or nobody in front
// of it.
func browser(system string, env func(string) string) string {
	switch {
	case env("CI") != "":
		return ""
	case system == "darwin":
		return "open"
	case env("DISPLAY") != "" || env("WAYLAND_DISPLAY") != "":
		return "xdg-open"
	}
	return ""
}

// keepRecord writes all that was shown to a file, with the tables and what was compared.
func (d *demo) keepRecord() {
	lab.Check(os.MkdirAll(filepath.Dir(d.file), 0o755))
	f := lab.Must(os.Create(d.file))
	lab.Check(errors.Join(d.record(f), f.Close()))
	d.screen.line("\n%s has all of this to keep: it plays in any browser.", d.file)
}

func (d *demo) record(w io.Writer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return page.Record(w, d.frames, d.facts())
}

// facts is what is to be known beside the frames.
func (d *demo) facts() page.Facts {
	f := page.Facts{
		Title: "Warmgate beside its rivals",
		About: []string{fmt.Sprintf("Each contender has %s of its own. All get the same requests at the same times. "+
			"Machine: %s.", d.show.fleet(), bench.Machine())},
	}
	if len(d.frames) > 0 {
		f.About[0] += " Version of Warmgate: " + d.frames[len(d.frames)-1].Gateways[contenders-1].Version + "."
	}
	for i, p := range d.played {
		t := p.table()
		f.About = append(f.About, p.summary()+" "+p.machine())
		name := fmt.Sprintf("Act %d. %s", i+1, p.title())
		f.Tables = append(f.Tables, page.Table{Name: name, Head: t.Head, Rows: t.Rows})
		var text strings.Builder
		for k := range p.policies {
			fmt.Fprintf(&text, "%s: %s\n", p.policies[k].Name, p.policies[k].Describe())
		}
		fmt.Fprintf(&text, "servers: %s\n", p.hardware())
		f.Texts = append(f.Texts, page.Text{Name: fmt.Sprintf("Act %d: configurations", i+1), Text: text.String()})
	}
	return f
}
