// Command dashboards writes the Grafana dashboards in deploy/observability/grafana, or with -queries prints what they
// ask Prometheus.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// folder has the dashboards, seen from this one.
const folder = "../../deploy/observability/grafana"

func main() {
	list := flag.Bool("queries", false, "print all queries as JSON, without variables, instead of writing dashboards")
	flag.Parse()
	if err := run(*list); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

func run(list bool) error {
	if list {
		enc := json.NewEncoder(os.Stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(asked())
	}
	files, err := generate()
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// boards are all dashboards.
func boards() []*board {
	return []*board{
		overview(), operations(), prefixCache(), endpointMetrics(), leastRequest(), consistentHash(),
		tokenBudget(), clusterMetrics(), regions(),
	}
}

// generate returns the files by name.
func generate() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, b := range boards() {
		d, err := b.build()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.name, err)
		}
		text, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.name, err)
		}
		files[b.name+".json"] = append(text, '\n')
	}
	return files, nil
}

// One is a query, for tests that ask a real Prometheus.
type One struct {
	Dashboard string   `json:"dashboard"`
	Panel     string   `json:"panel"`
	Expr      string   `json:"expr"`
	Labels    []string `json:"labels"`          // the legend has them
	When      string   `json:"when"`            // "wrong": has data while something is; "configured": see needs
	Needs     string   `json:"needs,omitempty"` // what has to be configured, or to happen, before there is data
}

// variables are what Grafana puts into queries.
var variables = strings.NewReplacer("$__rate_interval", "1m", "$cluster", ".*", "$model", ".*", "$policy", ".*")

// asked returns all queries.
func asked() []One {
	var all []One
	for _, b := range boards() {
		for _, r := range b.rows {
			for _, p := range r.panels {
				for i, q := range p.all() {
					one := One{b.name, p.title, variables.Replace(q.expr), q.labels(), "", p.needs}
					if p.kind == tile && i < len(p.queries) {
						one.When = "wrong"
					} else if p.needs != "" {
						one.When = "configured"
					}
					all = append(all, one)
				}
			}
		}
	}
	return all
}
