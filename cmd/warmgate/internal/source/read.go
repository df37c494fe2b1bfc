package source

import (
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
		text, err := io.ReadAll(stdin)
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
	text, err := os.ReadFile(name)
	if err == nil {
		use(NewFile(name, text), true)
	}
	return err
}

// mention is a word that is in all files that configure the plugin.
var mention = regexp.MustCompile(`warmgate|lb_policy|lb_config|_rules_`)

func readFolder(folder string, use func(f *File, named bool)) error {
	return filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != folder && (strings.HasPrefix(entry.Name(), ".") || isTemplates(name)) {
				return fs.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
			return nil
		}
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() { // a link to nothing, or to a folder
			return err
		}
		text, err := os.ReadFile(name)
		if err == nil && mention.Match(text) {
			use(NewFile(name, text), false)
		}
		return err
	})
}

// isTemplates reports whether a folder has the templates of a Helm chart, which are no YAML.
func isTemplates(folder string) bool {
	if filepath.Base(folder) != "templates" {
		return false
	}
	_, err := os.Stat(filepath.Join(filepath.Dir(folder), "Chart.yaml"))
	return err == nil
}
