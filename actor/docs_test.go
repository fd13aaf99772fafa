package actor_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func readDoc(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func parsePackage(t *testing.T, dir string, keep func(name string) bool) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if !keep(name) {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

func TestGuaranteesNameExistingTests(t *testing.T) {
	tests := map[string]bool{}
	for prefix, dir := range map[string]string{
		"": ".", "router.": "../router", "eventbus.": "../eventbus", "sim.": "../sim", "persist.": "../persist", "sqlite.": "../persist/sqlite", "postgres.": "../entity/postgres", "codec.": "../codec",
		"entity.": "../entity", "alarm.": "../entity/alarm", "filter.": "../entity/filter", "behavior.": "../entity/behavior", "script.": "../server/script", "server.": "../server", "greenroom.": "../cmd/greenroom", "remote.": "../remote", "lua.": "../lua", "cluster.": "../cluster", "wire.": "../remote/internal/wire", "session.": "../remote/internal/session", "transport.": "../remote/internal/transport",
	} {
		for _, f := range parsePackage(t, dir, func(n string) bool { return strings.HasSuffix(n, "_test.go") }) {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					tests[prefix+fn.Name.Name] = true
				}
			}
		}
	}
	named := regexp.MustCompile("`((?:\\w+\\.)?Test\\w+)`").FindAllStringSubmatch(readDoc(t, "guarantees.md"), -1)
	if len(named) < 40 {
		t.Errorf("docs/guarantees.md names only %d tests", len(named))
	}
	for _, m := range named {
		if !tests[m[1]] {
			t.Errorf("docs/guarantees.md names %s, which does not exist", m[1])
		}
	}
}

// The table of docs/events.md is the events of the code, with their fields.
func TestEventsAreDocumented(t *testing.T) {
	kinds, structs := []string{}, map[string][]string{}
	for _, f := range parsePackage(t, ".", func(n string) bool { return !strings.HasSuffix(n, "_test.go") }) {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.Name == "event" && d.Recv != nil {
					kinds = append(kinds, d.Recv.List[0].Type.(*ast.Ident).Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					ts, ok := s.(*ast.TypeSpec)
					if !ok {
						continue
					}
					if st, ok := ts.Type.(*ast.StructType); ok {
						for _, field := range st.Fields.List {
							for _, name := range field.Names {
								structs[ts.Name.Name] = append(structs[ts.Name.Name], name.Name)
							}
						}
					}
				}
			}
		}
	}
	documented := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|.*\\| ([^|]*) \\|$").FindAllStringSubmatch(readDoc(t, "events.md"), -1) {
		documented[m[1]] = strings.ReplaceAll(m[2], "`", "")
	}
	for _, k := range kinds {
		if want := strings.Join(structs[k], ", "); documented[k] != want {
			t.Errorf("docs/events.md has the fields %q for %s, the code %q", documented[k], k, want)
		}
	}
	for k := range documented {
		if !slices.Contains(kinds, k) {
			t.Errorf("docs/events.md has %s, the code has not", k)
		}
	}
	if len(kinds) == 0 {
		t.Error("found no events in the code")
	}
}
