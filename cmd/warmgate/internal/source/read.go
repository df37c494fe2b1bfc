package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Stdin stands for the standard input.
const Stdin = "-"

// Read hands on the file of a name, the standard input, or the files in a folder that mention the plugin. named tells
// which files were asked for by name. A file that cannot be read does not keep it from the others.
func Read(name string, stdin io.Reader, use func(f *File, named bool)) error {
	if name == Stdin {
		text, err := readAll("stdin", stdin)
		if err == nil {
			use(NewFile("stdin", text), true)
		}
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return readFolder(name, use)
	}
	text, err := readFile(name)
	if err == nil {
		use(NewFile(name, text), true)
	}
	return err
}

// maxMiB is far more than files of gateways have. What is larger is data, and may not fit into memory.
const maxMiB = 16

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(name, f)
}

func readAll(name string, from io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxMiB<<20+1))
	if err == nil && len(text) > maxMiB<<20 {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("it has more than %d MiB", maxMiB)}
	}
	return text, err
}

// mention is a word that is in all files that configure the plugin.
var mention = regexp.MustCompile(`warmgate|lb_policy|lb_config|_rules_`)

// Mentioned reports whether the file mentions the plugin.
func (f *File) Mentioned() bool { return mention.Match(f.Text) }

func readFolder(folder string, use func(f *File, named bool)) error {
	var faults []error
	folder += string(filepath.Separator) // so that a link is followed
	_ = filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil: // of a folder that cannot be listed
		case entry.IsDir() && name != folder && (isHidden(entry) || isTemplates(name)):
			return fs.SkipDir
		case !entry.IsDir() && IsReadable(name) && !isHidden(entry):
			err = readMention(name, use)
		}
		faults = append(faults, err)
		return nil
	})
	return errors.Join(faults...)
}

func isHidden(entry fs.DirEntry) bool { return strings.HasPrefix(entry.Name(), ".") }

// readMention hands on a file that mentions the plugin. A link to a folder is none.
func readMention(name string, use func(f *File, named bool)) error {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	text, err := readFile(name)
	if f := NewFile(name, text); err == nil && f.Mentioned() {
		use(f, false)
	}
	return err
}

// IsReadable reports whether a file is YAML or JSON, by its name.
func IsReadable(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(name)))
}

// isTemplates reports whether a folder has the templates of a Helm chart, which are no YAML.
func isTemplates(folder string) bool {
	if filepath.Base(folder) != "templates" {
		return false
	}
	_, err := os.Stat(filepath.Join(filepath.Dir(folder), "Chart.yaml"))
	return err == nil
}
