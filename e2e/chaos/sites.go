package main

import (
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// shippedSites is envoy-config/sites.yaml: how a route takes its cluster by a header.
type shippedSites struct {
	Early    yaml.Node `yaml:"early_header_mutation_extensions"`
	Routes   yaml.Node
	Clusters []map[string]any
}

func readSites() (*shippedSites, error) {
	root, err := harness.Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "envoy-config", "sites.yaml"))
	if err != nil {
		return nil, err
	}
	s := new(shippedSites)
	return s, yaml.Unmarshal(text, s)
}

// routes adds the route, and removes the header of clients before it is selected.
func (s *shippedSites) routes(doc *yaml.Node) error {
	if err := harness.Set(doc, harness.ManagerPath+".early_header_mutation_extensions", &s.Early); err != nil {
		return err
	}
	text, err := yaml.Marshal(&s.Routes)
	if err != nil {
		return err
	}
	return harness.Insert(doc, harness.RoutesPath, "", 0, string(text))
}
