package check

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sentinelTested are the packages with a file sentinel_test.go, in which each error that
// they export is produced by a call and found by errors.Is.
var sentinelTested = []string{"actor", "router", "eventbus", "schedule"}

// exportedErrors lists the error variables that a package exports: those named ErrX.
func exportedErrors(files []*ast.File) []string {
	var names []string
	for _, file := range files {
		for _, decl := range file.Decls {
			vars, ok := decl.(*ast.GenDecl)
			if !ok || vars.Tok != token.VAR {
				continue
			}
			for _, spec := range vars.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					if strings.HasPrefix(name.Name, "Err") {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// selected returns what a file names of an imported package: the Y of each pkg.Y.
func selected(file *ast.File, pkg string) map[string]bool {
	names := make(map[string]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := selector.X.(*ast.Ident); ok && id.Name == pkg {
				names[selector.Sel.Name] = true
			}
		}
		return true
	})
	return names
}

// untested lists the exported errors of a package that its test of them does not name.
func untested(pkg string, files []*ast.File, tests *ast.File) []string {
	var findings []string
	tested := selected(tests, pkg)
	for _, name := range exportedErrors(files) {
		if !tested[name] {
			findings = append(findings, fmt.Sprintf("%s.%s is not in %s/sentinel_test.go: produce it by a call and find it with errors.Is", pkg, name, pkg))
		}
	}
	return findings
}

func TestEachExportedErrorIsProducedInATest(t *testing.T) {
	for _, p := range modulePackages(t) {
		name := p.path()
		file := filepath.Join(p.Dir, "sentinel_test.go")
		if !slices.Contains(sentinelTested, name) {
			if _, err := os.Stat(file); err == nil {
				t.Errorf("%s has a sentinel_test.go: add it to sentinelTested", name)
			}
			continue
		}
		_, files := parsePackage(t, p)
		if len(exportedErrors(files)) == 0 {
			t.Errorf("%s exports no error at all: take it out of sentinelTested", name)
		}
		tests, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		report(t, untested(name, files, tests))
	}
}

func TestEachExportedErrorIsExplained(t *testing.T) {
	const name = "docs/errors.md"
	text := string(readTracked(t, name))
	for _, p := range modulePackages(t) {
		if !slices.Contains(sentinelTested, p.path()) {
			continue
		}
		_, files := parsePackage(t, p)
		for _, err := range exportedErrors(files) {
			if !strings.Contains(text, "`"+p.path()+"."+err+"`") {
				t.Errorf("%s does not say when there is %s.%s and what to do", name, p.path(), err)
			}
		}
	}
}

func TestUntestedFindsTheErrorsThatNobodyProduces(t *testing.T) {
	_, files := parseText(t, `package shop

import "errors"

var ErrSoldOut = errors.New("sold out")

var (
	ErrClosed, errInner = errors.New("closed"), errors.New("inner")
	ErrBroke            = errors.New("broke")
	Default             = 1
)
`)
	_, tests := parseText(t, `package shop_test

func TestX() { _ = errors.Is(shop.Buy(), shop.ErrSoldOut) && errors.Is(nil, till.ErrBroke) }
`)
	wantFindings(t, untested("shop", files, tests[0]), "shop.ErrBroke is not in", "shop.ErrClosed is not in")
}
