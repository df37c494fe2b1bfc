package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/gateways"
	"github.com/warmgate/warmgate/internal/live"
	"github.com/warmgate/warmgate/internal/live/page"
	"github.com/warmgate/warmgate/internal/snapshot"
)

// minViewerToken is the shortest token that is taken, in bytes: as the plugin has it for its own.
const minViewerToken = 16

// ui is what the flags of the command say.
type ui struct {
	gateways          gateways.Flags
	listen, tokenFile string
	open              bool
}

func newUI() *cobra.Command {
	u := new(ui)
	command := &cobra.Command{
		Use:   "ui [ADDRESS...]",
		Short: "Show running gateways as a web page",
		Long: `Show running gateways as a web page, once a second: endpoints with their running and waiting requests, queues,
other regions, times to first token, and decisions with what each candidate would have cost. It reads only.

The page is for this machine. With another address to listen at, viewers need a token: that of a file, or one that is
made up and printed. What is sent is not encrypted; for others' networks there are tunnels, such as ssh -L.

` + gateways.Help,
		Example: `  warmgate ui http://127.0.0.1:15000
  warmgate ui --config gateways.yaml --open`,
		RunE: func(command *cobra.Command, args []string) error { return u.run(command, args) },
	}
	flags := command.Flags()
	flags.StringVar(&u.listen, "listen", "127.0.0.1:8899", "`address` and port to listen at; port 0: any free one")
	flags.StringVar(&u.tokenFile, "viewer-token-file", "", "`file` with the token that viewers need")
	flags.BoolVar(&u.open, "open", false, "open the page in a browser")
	u.gateways.Add(command)
	return command
}

// run serves until the program is interrupted.
func (u *ui) run(command *cobra.Command, args []string) error {
	sources, _, err := u.gateways.Sources(args)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", u.listen)
	if err != nil {
		return fmt.Errorf("%w; --listen wants an address and a port, like 127.0.0.1:8899", err)
	}
	defer listener.Close()
	at := listener.Addr().(*net.TCPAddr)
	token, made, err := u.token(at)
	if err != nil {
		return err
	}
	shown := page.New(page.Facts{}, token)
	server := &http.Server{
		Handler: shown, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 14,
	}
	interrupted, stop := signal.NotifyContext(command.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	serving, end := context.WithCancelCause(interrupted)
	go func() { end(server.Serve(listener)) }()

	fmt.Fprintln(command.OutOrStdout(), addressOf(at, made))
	if u.open {
		openBrowser(command, addressOf(at, token))
	}
	reader := snapshot.NewReader(thisBuild().Version, sources, nil)
	live.Poll(serving, time.Second, reader.Watch, func(f live.Frame) {
		if err := shown.Show(f); err != nil {
			fmt.Fprintf(command.ErrOrStderr(), "warmgate: this second is not shown: %v\n", err)
		}
	})
	shown.Close()
	if interrupted.Err() == nil {
		return context.Cause(serving)
	}
	return server.Close()
}

// token returns what viewers need to know, "" if the page is for this machine alone. It is printed if it was made here.
func (u *ui) token(at *net.TCPAddr) (token, made string, err error) {
	if u.tokenFile == "" {
		if at.IP.IsLoopback() {
			return "", "", nil
		}
		made = rand.Text()
		return made, made, nil
	}
	if token, err = gateways.ReadSecret(u.tokenFile); err != nil {
		return "", "", err
	}
	if len(token) < minViewerToken {
		return "", "", fmt.Errorf("%s: want a token of %d characters at least", u.tokenFile, minViewerToken)
	}
	return token, "", nil
}

// addressOf returns where a browser finds the page.
func addressOf(at *net.TCPAddr, token string) string {
	host := at.IP.String()
	if at.IP.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	address := "http://" + net.JoinHostPort(host, strconv.Itoa(at.Port)) + "/"
	if token != "" {
		address += "?token=" + url.QueryEscape(token)
	}
	return address
}

// openBrowser opens an address in the browser of this machine, if it can. The address has been printed, too.
func openBrowser(command *cobra.Command, address string) {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	browser := exec.CommandContext(command.Context(), program, address)
	if err := browser.Start(); err != nil {
		fmt.Fprintf(command.ErrOrStderr(), "warmgate: no browser is opened: %v\n", err)
		return
	}
	go func() { _ = browser.Wait() }() // what becomes of it is the browser's own
}
