package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/explanation"
	"github.com/warmgate/warmgate/cmd/warmgate/internal/gateways"
	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
	"github.com/warmgate/warmgate/internal/explain"
	"github.com/warmgate/warmgate/internal/state"
)

// explaining is what the flags of explain say.
type explaining struct {
	config, state, gateway string
	endpoints              []string
	cached                 []string
	cluster, route, zone   string
	path                   string
	seed                   uint64
	live, tokenFile        string
	output                 string
}

func newExplain() *cobra.Command {
	x := new(explaining)
	command := &cobra.Command{
		Use:   "explain {-c FILE | --live URL} <REQUEST",
		Short: "Say where a request would go, and why",
		Long: `Say where a request would go, and why: what is read of it, what each endpoint costs, term by term, who wins, and why
others are no candidates. The plugin's own code decides, and nothing is sent to a model server.

The request is read from the standard input: an HTTP message, or a body of JSON alone.

The gateway's endpoints, with what is in flight, come from a snapshot, from --endpoint, or from the configuration's own
list. With --live a running gateway explains the request, by what it knows (lb_config.inspect).`,
		Example: `  warmgate explain -c warmgate.yaml --endpoint 10.0.0.1:8000,requests=3,tokens=9000 <request.json
  warmgate snapshot http://127.0.0.1:9901 >gateway.json
  warmgate explain -c warmgate.yaml --state gateway.json <request.http
  warmgate explain --live http://127.0.0.1:10000/warmgate/inspect --token-file token <request.http`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return x.run(command) },
	}
	flags := command.Flags()
	flags.StringVarP(&x.config, "config", "c", "", "file with the configuration, of any kind that validate reads")
	flags.StringVar(&x.state, "state", "", "file with a snapshot of the gateway")
	flags.StringVar(&x.gateway, "gateway", "", "which gateway of the snapshot (default: the only one)")
	flags.StringArrayVar(&x.endpoints, "endpoint", nil, "endpoint, as ADDRESS[,requests=N][,tokens=N][,weight=X]"+
		"[,zone=NAME][,cached=N%]; repeat it for each")
	flags.StringArrayVar(&x.cached, "cached", nil, "how much of the prompt an endpoint has, as ADDRESS=N%")
	flags.StringVar(&x.cluster, "cluster", "", "cluster to which the request is routed (default: the only one)")
	flags.StringVar(&x.route, "route", "", "name of its route")
	flags.StringVar(&x.zone, "zone", "", "zone of the gateway")
	flags.StringVar(&x.path, "path", "", "path of the request (default: by the form of its body)")
	flags.Uint64Var(&x.seed, "seed", 1, "of random draws")
	flags.StringVar(&x.live, "live", "", "URL at which a gateway shows what it knows: have it explain the request")
	flags.StringVar(&x.tokenFile, "token-file", "", "file with the token for --live")
	outputFlag(command, &x.output, "text", "json")
	command.MarkFlagsOneRequired("config", "live")
	command.MarkFlagsMutuallyExclusive("config", "live")
	return command
}

// maxRequest is how much is read of a request: more than the plugin reads.
const maxRequest = 64 << 20

func (x *explaining) run(command *cobra.Command) error {
	text, err := io.ReadAll(io.LimitReader(command.InOrStdin(), maxRequest))
	if err != nil {
		return err
	}
	r, err := explanation.Read(text, x.path)
	if err != nil {
		return err
	}
	var e *state.Explanation
	if x.live != "" {
		e, err = x.askLive(r)
	} else {
		e, err = x.ask(command.InOrStdin(), r)
	}
	if err != nil {
		return err
	}
	out := command.OutOrStdout()
	if x.output == "json" {
		return printJSON(out, e)
	}
	return explanation.Print(out, e)
}

// askLive has a running gateway explain the request.
func (x *explaining) askLive(r *explanation.Request) (*state.Explanation, error) {
	token, err := gateways.ReadSecret(x.tokenFile)
	if err != nil {
		return nil, err
	}
	call, err := r.To(x.live, token)
	if err != nil {
		return nil, fmt.Errorf("--live: %w", err)
	}
	client := http.Client{Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // which has the token no more
	}}
	answer, err := client.Do(call)
	if err != nil {
		return nil, fmt.Errorf("--live: %w", err)
	}
	defer answer.Body.Close()
	text, err := explanation.Answer(answer.StatusCode, answer.Body)
	if err != nil {
		return nil, fmt.Errorf("--live: %w", err)
	}
	e := new(state.Explanation)
	if err := json.Unmarshal(text, e); err != nil || e.Format != state.Format {
		return nil, errors.New("--live: the answer is none that this version of warmgate understands")
	}
	return e, nil
}

// ask has the plugin's own code here explain the request.
func (x *explaining) ask(stdin io.Reader, r *explanation.Request) (*state.Explanation, error) {
	q := explain.Question{Route: x.route, Zone: x.zone, Seed: x.seed, Headers: r.All(), Body: r.Body}
	if err := x.readConfig(stdin, &q); err != nil {
		return nil, err
	}
	if err := x.readState(&q); err != nil {
		return nil, err
	}
	e, err := explain.Ask(&q)
	if errors.Is(err, explain.ErrNoEndpoints) {
		return nil, errors.New("no endpoint is known: name a snapshot by --state, or each endpoint by --endpoint")
	}
	return e, err
}

// readConfig reads the configuration.
func (x *explaining) readConfig(stdin io.Reader, q *explain.Question) error {
	if x.config == source.Stdin {
		return errors.New("--config: the standard input has the request, want a file")
	}
	var faults []error
	files := 0
	err := source.Read(x.config, stdin, func(f *source.File, _ bool) {
		files++
		c, err := configIn(f)
		if q.Config, q.Host = c.Text, c.Host; err != nil {
			faults = append(faults, fmt.Errorf("--config %s: %w", f.Name, err))
		}
	})
	if err == nil && files != 1 {
		err = fmt.Errorf("--config %s: %d files in this folder mention the plugin, want one", x.config, files)
	}
	return errors.Join(append(faults, err)...)
}
