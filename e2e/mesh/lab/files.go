package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Resources are what a control plane has made, by kind: each is the JSON of the message, with its @type.
type Resources struct {
	Listeners, Clusters, Routes, Endpoints, Extensions []map[string]any
}

// The files of each kind, in the folder that Envoy runs in.
const (
	listenersFile  = "listeners.json"
	clustersFile   = "clusters.json"
	routesFile     = "routes.json"
	endpointsFile  = "endpoints.json"
	extensionsFile = "extensions.json"
)

// sources are the keys below which a resource names the stream of the control plane as the source of others, and the
// files that replace it.
var sources = map[string]string{
	"rds": routesFile, "edsClusterConfig": endpointsFile, "configDiscovery": extensionsFile,
}

// WriteTo writes the resources to files in a folder, in which they refer to each other. It returns the
// dynamic_resources of a bootstrap for an Envoy that runs there.
func (r *Resources) WriteTo(dir string) (dynamic map[string]any, err error) {
	for _, list := range [][]map[string]any{r.Listeners, r.Clusters} {
		for _, resource := range list {
			if err := fromFiles(resource, ""); err != nil {
				return nil, err
			}
		}
	}
	for file, list := range map[string][]map[string]any{
		listenersFile: r.Listeners, clustersFile: r.Clusters, routesFile: r.Routes, endpointsFile: r.Endpoints,
		extensionsFile: r.Extensions,
	} {
		if list == nil {
			list = []map[string]any{}
		}
		text, err := json.MarshalIndent(map[string]any{"versionInfo": "1", "resources": list}, "", " ")
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil {
			return nil, err
		}
	}
	return map[string]any{"ldsConfig": source(listenersFile), "cdsConfig": source(clustersFile)}, nil
}

// source is where Envoy finds a kind of resources.
func source(file string) map[string]any {
	return map[string]any{"resourceApiVersion": "V3", "pathConfigSource": map[string]any{"path": "./" + file}}
}

// fromFiles replaces the stream of the control plane, wherever it is named as a source, by files.
func fromFiles(value any, file string) error {
	switch value := value.(type) {
	case map[string]any:
		if _, ok := value["ads"]; ok {
			if file == "" {
				return errors.New("lab: a resource of an unknown kind comes from the control plane")
			}
			delete(value, "ads")
			for key, v := range source(file) {
				value[key] = v
			}
		}
		for key, v := range value {
			below := file
			if known, ok := sources[key]; ok {
				below = known
			}
			if err := fromFiles(v, below); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	case []any:
		for _, v := range value {
			if err := fromFiles(v, file); err != nil {
				return err
			}
		}
	}
	return nil
}
