package gateways

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/internal/snapshot"
)

// listed is what a file lists.
type listed struct {
	list
	redis redisOptions
}

// readFile reads a file that lists gateways. Files that it names are beside it, unless their paths are absolute.
func readFile(name string) (*listed, error) {
	var file struct {
		Gateways []struct {
			Name      string `yaml:"name"`
			Region    string `yaml:"region"`
			Admin     string `yaml:"admin"`
			Inspect   string `yaml:"inspect"`
			TokenFile string `yaml:"token_file"`
		} `yaml:"gateways"`
		Redis redisOptions `yaml:"redis"`
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, inWords(err))
	}
	beside := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(filepath.Dir(name), path)
	}
	out := &listed{redis: file.Redis}
	out.redis.PasswordFile, out.redis.CAFile = beside(file.Redis.PasswordFile), beside(file.Redis.CAFile)
	for i, g := range file.Gateways {
		s := snapshot.Source{Name: g.Name, Region: g.Region}
		var host, inspectHost string
		var errs [4]error
		if g.Admin == "" && g.Inspect == "" {
			errs[0] = errors.New("want admin, inspect or both")
		}
		if g.Admin != "" {
			s.Admin, host, errs[1] = adminAddress(g.Admin)
		}
		if g.Inspect != "" {
			s.Inspect, inspectHost, errs[2] = inspectAddress(g.Inspect)
		}
		s.Token, errs[3] = ReadSecret(beside(g.TokenFile))
		s.Name = cmp.Or(s.Name, host, inspectHost)
		if err := errors.Join(errs[:]...); err != nil {
			return nil, fmt.Errorf("%s: gateway %d: %w", name, i+1, err)
		}
		if err := out.add(s); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out, nil
}

var (
	unknownKey = regexp.MustCompile(`(?s)^(line \d+): field (.*) not found in type .*`)
	wrongType  = regexp.MustCompile(`(?s)^(line \d+): cannot unmarshal .*`)
)

// inWords returns an error of YAML without the types of Go.
func inWords(err error) error {
	var of *yaml.TypeError
	if !errors.As(err, &of) {
		return err
	}
	var all []string
	for _, text := range of.Errors {
		text = unknownKey.ReplaceAllString(text, "$1: unknown key $2")
		all = append(all, wrongType.ReplaceAllString(text, "$1: a value of the wrong type"))
	}
	return errors.New(strings.Join(all, "; "))
}

// ReadSecret reads a file whose only line is a secret; "" is no file.
func ReadSecret(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" || strings.ContainsAny(secret, "\r\n") {
		return "", fmt.Errorf("%s: want one line", file)
	}
	return secret, nil
}
