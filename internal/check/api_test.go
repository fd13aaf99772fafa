package check

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite api/*.txt from the source")

// apiFile is where the API of a package is kept: api/entity-sqlite.txt.
func apiFile(p goPackage) string {
	return filepath.Join(root, "api", strings.ReplaceAll(p.path(), "/", "-")+".txt")
}

func TestPublicAPIIsTheReviewedOne(t *testing.T) {
	kept := make(map[string]bool)
	for _, p := range modulePackages(t) {
		if !p.public() {
			continue
		}
		lines := apiOf(parsePackage(t, p))
		if len(lines) == 0 {
			continue // it holds tests only
		}
		name := apiFile(p)
		kept[filepath.Base(name)] = true
		got := strings.Join(lines, "\n") + "\n"
		if *update {
			writeAPI(t, name, got)
			continue
		}
		want, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is public and api/%s is missing: `make api` writes it, review what it wrote", p.path(), filepath.Base(name))
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := lineDiff(string(want), got); len(diff) > 0 {
			t.Errorf("the public API of %s is not the one of api/%s; where the change is meant, `make api` writes it down\n%s",
				p.path(), filepath.Base(name), strings.Join(diff, "\n"))
		}
	}
	if len(kept) == 0 {
		t.Fatal("no public package was found")
	}
	dropStaleAPI(t, kept)
}

func writeAPI(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// dropStaleAPI finds the files of packages that are no more.
func dropStaleAPI(t *testing.T, kept map[string]bool) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "api", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if kept[filepath.Base(name)] {
			continue
		}
		if !*update {
			t.Errorf("api/%s belongs to no public package: `make api` removes it", filepath.Base(name))
		} else if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// lineDiff lists the lines that one of two sorted texts has and the other not.
func lineDiff(want, got string) []string {
	var diff []string
	wanted, have := strings.Split(want, "\n"), strings.Split(got, "\n")
	for _, line := range wanted {
		if !slices.Contains(have, line) {
			diff = append(diff, "- "+line)
		}
	}
	for _, line := range have {
		if !slices.Contains(wanted, line) {
			diff = append(diff, "+ "+line)
		}
	}
	return diff
}

// apiOf renders what a package exports: one line a thing, sorted. It works on
// the syntax alone, so that it needs neither the compiler nor the package's
// dependencies; the price is that what an embedded type promotes shows as the
// embedding only.
func apiOf(fset *token.FileSet, files []*ast.File) []string {
	a := &api{fset: fset}
	for _, file := range files {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				a.function(d)
			case *ast.GenDecl:
				a.declaration(d)
			}
		}
	}
	slices.Sort(a.lines)
	return slices.Compact(a.lines)
}

type api struct {
	fset  *token.FileSet
	lines []string
}

func (a *api) add(format string, args ...any) {
	a.lines = append(a.lines, fmt.Sprintf(format, args...))
}

// text prints a node on one line.
func (a *api) text(node any) string {
	var out bytes.Buffer
	if err := printer.Fprint(&out, a.fset, node); err != nil {
		return fmt.Sprintf("<%v>", err)
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

func (a *api) function(d *ast.FuncDecl) {
	if !d.Name.IsExported() {
		return
	}
	signature := strings.TrimPrefix(a.text(d.Type), "func")
	if d.Recv == nil {
		a.add("func %s%s", d.Name.Name, strings.TrimPrefix(signature, " "))
		return
	}
	name, text := receiver(d)
	if ast.IsExported(name) {
		a.add("method (%s) %s%s", text, d.Name.Name, strings.TrimPrefix(signature, " "))
	}
}

func (a *api) declaration(d *ast.GenDecl) {
	var carried *ast.ValueSpec // a constant without a value repeats the one before it
	for i, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				a.typeSpec(s)
			}
		case *ast.ValueSpec:
			if d.Tok == token.VAR {
				a.variables(s)
				continue
			}
			if len(s.Values) > 0 {
				carried = s
			}
			a.constants(s, carried, i)
		}
	}
}

func (a *api) variables(s *ast.ValueSpec) {
	for _, name := range s.Names {
		if !name.IsExported() {
			continue
		}
		if s.Type == nil {
			a.add("var %s", name.Name)
		} else {
			a.add("var %s %s", name.Name, a.text(s.Type))
		}
	}
}

// constants shows the value as it is written; where it counts with iota, also
// what iota is, since the place in the group is part of the value.
func (a *api) constants(s, carried *ast.ValueSpec, place int) {
	for i, name := range s.Names {
		if !name.IsExported() || carried == nil || i >= len(carried.Values) {
			continue
		}
		line := "const " + name.Name
		if carried.Type != nil {
			line += " " + a.text(carried.Type)
		}
		value := a.text(carried.Values[i])
		line += " = " + value
		if mentionsIota(carried.Values[i]) {
			line += fmt.Sprintf(" with iota %d", place)
		}
		a.add("%s", line)
	}
}

func mentionsIota(value ast.Expr) bool {
	found := false
	ast.Inspect(value, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == "iota"
		return !found
	})
	return found
}

func (a *api) typeSpec(s *ast.TypeSpec) {
	head := "type " + s.Name.Name
	if s.TypeParams != nil {
		// A field list prints only as a part of a function's type.
		parameters := a.text(&ast.FuncType{TypeParams: s.TypeParams, Params: &ast.FieldList{}})
		head += strings.TrimSuffix(strings.TrimPrefix(parameters, "func"), "()")
	}
	if s.Assign.IsValid() {
		head += " ="
	}
	switch kind := s.Type.(type) {
	case *ast.StructType:
		a.members(head+" struct", kind.Fields, func(name string, field *ast.Field) string {
			if field.Tag != nil {
				return name + " " + a.text(field.Type) + " " + field.Tag.Value
			}
			return name + " " + a.text(field.Type)
		})
	case *ast.InterfaceType:
		a.members(head+" interface", kind.Methods, func(name string, field *ast.Field) string {
			return name + strings.TrimPrefix(a.text(field.Type), "func")
		})
	default:
		a.add("%s %s", head, a.text(s.Type))
	}
}

// members writes a line for the type and one for each exported member. That
// there are others too is a part of the API: nobody outside can then implement
// the interface, or compose the struct without naming its fields.
func (a *api) members(head string, members *ast.FieldList, render func(string, *ast.Field) string) {
	hidden := false
	for _, member := range members.List {
		if len(member.Names) == 0 { // embedded, or a constraint's union
			name := embeddedName(member.Type)
			if name == "" || ast.IsExported(name) || !isIdent(member.Type) {
				a.add("%s, embeds %s", head, a.text(member.Type))
			} else {
				hidden = true
			}
		}
		for _, name := range member.Names {
			if name.IsExported() {
				a.add("%s, %s", head, render(name.Name, member))
			} else {
				hidden = true
			}
		}
	}
	if hidden {
		a.add("%s, with unexported members", head)
	} else {
		a.add("%s", head)
	}
}

func isIdent(kind ast.Expr) bool {
	if star, ok := kind.(*ast.StarExpr); ok {
		kind = star.X
	}
	_, ok := kind.(*ast.Ident)
	return ok
}

func TestAPIListsWhatIsExportedAndNothingElse(t *testing.T) {
	got := apiOf(parseText(t, `package example

import "context"

const Limit, inner = 10, 2

const (
	KindFloat Kind = 1 + iota
	kindHidden
	KindBool
)

var ErrGone, errHidden = errors.New("gone"), errors.New("hidden")
var Default Config

type Kind uint8
type Alias = Kind
type Ref[M any, K comparable] struct{ cell *cell }
type Stats struct {
	Actors, Queued int
	Names []string `+"`json:\"names\"`"+`
	context.Context
	*hidden
}
type Option interface {
	Name() string
	apply(*config)
}
type Number interface{ ~int | ~float64 }

func Ask[R, M any](ctx context.Context,
	to Ref[M]) (R, error) { panic(0) }
func (r Ref[M, K]) Tell(m M) {}
func (s *Stats) Reset() {}
func (s *Stats) reset() {}
func (h hidden) Visible() {}
func helper() {}
`))
	want := []string{
		"const KindBool Kind = 1 + iota with iota 2",
		"const KindFloat Kind = 1 + iota with iota 0",
		"const Limit = 10",
		"func Ask[R, M any](ctx context.Context, to Ref[M]) (R, error)",
		"method (*Stats) Reset()",
		"method (Ref) Tell(m M)",
		"type Alias = Kind",
		"type Kind uint8",
		"type Number interface",
		"type Number interface, embeds ~int | ~float64",
		"type Option interface, Name() string",
		"type Option interface, with unexported members",
		"type Ref[M any, K comparable] struct, with unexported members",
		"type Stats struct, Actors int",
		"type Stats struct, Names []string `json:\"names\"`",
		"type Stats struct, Queued int",
		"type Stats struct, embeds context.Context",
		"type Stats struct, with unexported members",
		"var Default Config",
		"var ErrGone",
	}
	if diff := lineDiff(strings.Join(want, "\n"), strings.Join(got, "\n")); len(diff) > 0 {
		t.Errorf("the rendering differs:\n%s", strings.Join(diff, "\n"))
	}
	if !slices.IsSorted(got) {
		t.Errorf("the lines are not sorted: %q", got)
	}
}

func TestLineDiffShowsBothSides(t *testing.T) {
	wantFindings(t, lineDiff("a\nb", "a\nc"), "- b", "+ c")
	wantFindings(t, lineDiff("a\nb", "a\nb"))
}
