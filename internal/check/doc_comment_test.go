package check

import (
	"fmt"
	"go/ast"
	"go/token"
	"path/filepath"
	"testing"
)

// undocumented lists what a package exports without a word about it. A comment
// above a run of lines with no blank line between them speaks for all of them,
// and a type's comment for the first such run of its members.
func undocumented(fset *token.FileSet, files []*ast.File) []string {
	d := &docs{fset: fset}
	packageDoc := false
	for _, file := range files {
		packageDoc = packageDoc || file.Doc != nil
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				d.function(decl)
			case *ast.GenDecl:
				d.declaration(decl)
			}
		}
	}
	if !packageDoc && len(files) > 0 {
		d.missing(files[0], "package "+files[0].Name.Name)
	}
	return d.findings
}

type docs struct {
	fset     *token.FileSet
	findings []string
}

func (d *docs) missing(node ast.Node, what string) {
	at := d.fset.Position(node.Pos())
	d.findings = append(d.findings, fmt.Sprintf("%s:%d: %s has no doc comment", filepath.Base(at.Filename), at.Line, what))
}

func (d *docs) function(decl *ast.FuncDecl) {
	if !decl.Name.IsExported() || decl.Doc != nil {
		return
	}
	what := decl.Name.Name
	if decl.Recv != nil {
		name, _ := receiver(decl)
		if !ast.IsExported(name) {
			return
		}
		what = name + "." + what
	}
	d.missing(decl, what)
}

func (d *docs) declaration(decl *ast.GenDecl) {
	covered := run{docs: d}
	for _, spec := range decl.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if !s.Name.IsExported() {
				continue
			}
			if s.Doc == nil && (decl.Doc == nil || decl.Lparen.IsValid()) {
				d.missing(s, s.Name.Name)
			}
			d.members(s)
		case *ast.ValueSpec:
			has := covered.next(s, s.Doc != nil || s.Comment != nil) || decl.Doc != nil
			for _, name := range s.Names {
				if name.IsExported() && !has {
					d.missing(s, name.Name)
				}
			}
		}
	}
}

// members looks at the fields of an exported struct and the methods of an
// exported interface. What is embedded is documented where it is declared.
func (d *docs) members(s *ast.TypeSpec) {
	var list *ast.FieldList
	switch kind := s.Type.(type) {
	case *ast.StructType:
		list = kind.Fields
	case *ast.InterfaceType:
		list = kind.Methods
	default:
		return
	}
	covered := run{docs: d, line: d.fset.Position(list.Opening).Line, covered: true}
	for _, member := range list.List {
		has := covered.next(member, member.Doc != nil || member.Comment != nil)
		for _, name := range member.Names {
			if name.IsExported() && !has {
				d.missing(member, s.Name.Name+"."+name.Name)
			}
		}
	}
}

// run follows a list line by line and remembers whether a comment still speaks.
type run struct {
	docs    *docs
	line    int // where the item before ended, or the list began
	covered bool
}

// next reports whether a comment speaks for the item, which has one of its own
// or not.
func (r *run) next(node ast.Node, own bool) bool {
	adjacent := r.docs.fset.Position(node.Pos()).Line <= r.line+1
	r.covered = own || r.covered && adjacent
	r.line = r.docs.fset.Position(node.End()).Line
	return r.covered
}

func TestEverythingExportedHasADocComment(t *testing.T) {
	for _, p := range modulePackages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		for _, finding := range undocumented(parsePackage(t, p)) {
			t.Errorf("%s: %s", p.path(), finding)
		}
	}
}

func TestUndocumentedFindsWhatIsBare(t *testing.T) {
	findings := undocumented(parseText(t, `package example

const Bare = 1

// The limits.
const (
	Covered = 2
)

const (
	// First begins a run.
	First = 1
	Second = 2

	Third = 3
)

type Naked struct {
	// X and Y speak together.
	X int
	Y int

	Z int
	W int // has its own
	hidden int
}

// Clothed is documented, and its only method with it.
type Clothed interface{ Method() }

// Pair is documented, and its first two fields with it.
type Pair struct {
	Left  int
	Right int

	// Weight has a comment.
	Weight int
	Height int

	Depth int
}

func Function() {}
func (n *Naked) Method() {}
func (h hidden) Method() {}
func helper() {}
`))
	wantFindings(t, findings, "Bare", "Third", "Naked has", "Naked.Z", "Pair.Depth", "Function", "Naked.Method", "package example")
}
