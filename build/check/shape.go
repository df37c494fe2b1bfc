package main

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The shape of a package: files that refer to each other in a circle can only be read together, a type with very many
// methods is several things at once, and of two methods that differ only in case a slip calls the other.
const (
	maxCircle  = 5  // files of a package that refer to each other in a circle
	maxMethods = 40 // of a type
)

// shape is what was found of a package that is more than that.
type shape struct {
	circle  int            // files of the largest circle, 0 for none above the limit
	methods map[string]int // of types above the limit, by name
	pairs   []string       // methods of one type whose names differ only in case, as "Type.Name and Type.name"
}

// checked is a package as the type checker sees it, without its tests.
type checked struct {
	fset  *token.FileSet
	files []*ast.File
	pkg   *types.Package
	info  *types.Info
}

// shapes returns the violations of the limits in all packages of the module.
func shapes() ([]string, error) {
	packages, exports, err := exported()
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, p := range packages {
		c, err := check(p, exports)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.ImportPath, err)
		}
		problems = append(problems, c.shape().problems(folderOf(p.ImportPath))...)
	}
	return problems, nil
}

// source is a package as `go list -export` prints it.
type source struct {
	ImportPath, Export, Dir string
	GoFiles                 []string
	Module                  *struct{ Path string }
}

// exported returns the packages of the module, and where the compiler has left what each package exports.
func exported() (packages []source, exports map[string]string, err error) {
	all, err := goList[source]("-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles,Module", "./...")
	exports = map[string]string{}
	for _, s := range all {
		exports[s.ImportPath] = s.Export
		if s.Module != nil && s.Module.Path == module {
			packages = append(packages, s)
		}
	}
	return packages, exports, err
}

// check has the type checker look at a package.
func check(s source, exports map[string]string) (*checked, error) {
	c := &checked{fset: token.NewFileSet()}
	for _, name := range s.GoFiles {
		file, err := parser.ParseFile(c.fset, filepath.Join(s.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		c.files = append(c.files, file)
	}
	return c, c.resolve(s.ImportPath, func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
}

// resolve finds out what the names in the files stand for.
func (c *checked) resolve(path string, lookup importer.Lookup) (err error) {
	c.info = &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(c.fset, "gc", lookup)}
	c.pkg, err = config.Check(path, c.fset, c.files, c.info)
	return err
}

// shape measures the package.
func (c *checked) shape() shape {
	s := shape{methods: map[string]int{}}
	for _, circle := range circles(c.references()) {
		if len(circle) > maxCircle {
			s.circle = max(s.circle, len(circle))
		}
	}
	for _, name := range c.pkg.Scope().Names() {
		object, ok := c.pkg.Scope().Lookup(name).(*types.TypeName)
		if !ok || object.IsAlias() {
			continue
		}
		named, ok := object.Type().(*types.Named)
		if !ok {
			continue
		}
		if n := named.NumMethods(); n > maxMethods {
			s.methods[name] = n
		}
		s.pairs = append(s.pairs, casePairs(name, named)...)
	}
	return s
}

// casePairs returns the pairs of methods of a type, those of embedded types included, that differ only in case.
func casePairs(name string, named *types.Named) (pairs []string) {
	set, known := types.NewMethodSet(types.NewPointer(named)), map[string]string{}
	for i := range set.Len() {
		method := set.At(i).Obj().Name()
		if other, ok := known[strings.ToLower(method)]; ok {
			pairs = append(pairs, name+"."+other+" and "+name+"."+method)
		}
		known[strings.ToLower(method)] = method
	}
	return pairs
}

// references returns to which other files of the package each file refers: by a name at the top level, a method or a
// field.
func (c *checked) references() map[string]map[string]bool {
	refs := map[string]map[string]bool{}
	for _, file := range c.files {
		refs[c.fileOf(file.Pos())] = map[string]bool{}
	}
	for ident, object := range c.info.Uses {
		if object.Pkg() != c.pkg || !object.Pos().IsValid() {
			continue
		}
		from, to := c.fileOf(ident.Pos()), c.fileOf(object.Pos())
		if from != to {
			refs[from][to] = true
		}
	}
	return refs
}

func (c *checked) fileOf(pos token.Pos) string { return filepath.Base(c.fset.Position(pos).Filename) }

// circles returns the groups of more than one file, each of which can be reached from every other one (Tarjan: "Depth-
// first search and linear graph algorithms", 1972).
func circles(refs map[string]map[string]bool) (found [][]string) {
	number, low, open := map[string]int{}, map[string]int{}, map[string]bool{}
	var path []string
	var visit func(file string)
	visit = func(file string) {
		number[file] = len(number) + 1
		low[file], open[file] = number[file], true
		path = append(path, file)
		for _, to := range slices.Sorted(maps.Keys(refs[file])) {
			if number[to] == 0 {
				visit(to)
				low[file] = min(low[file], low[to])
			} else if open[to] {
				low[file] = min(low[file], number[to])
			}
		}
		if low[file] < number[file] {
			return
		}
		circle := slices.Clone(path[slices.Index(path, file):])
		path = path[:len(path)-len(circle)]
		for _, member := range circle {
			open[member] = false
		}
		if len(circle) > 1 {
			found = append(found, circle)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(refs)) {
		if number[file] == 0 {
			visit(file)
		}
	}
	return found
}

// problems says what of a package is beyond the limits.
func (s shape) problems(folder string) []string {
	var problems []string
	if s.circle > maxCircle {
		problems = append(problems, fmt.Sprintf("%s: files in the largest circle: %d, limit %d", folder, s.circle,
			maxCircle))
	}
	for _, name := range slices.Sorted(maps.Keys(s.methods)) {
		problems = append(problems, fmt.Sprintf("%s: methods of %s: %d, limit %d", folder, name, s.methods[name],
			maxMethods))
	}
	for _, pair := range s.pairs {
		problems = append(problems, folder+": "+pair+" differ only in case")
	}
	return problems
}
