package check

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// parsePackage parses the files of a package that are built here, without its
// tests, with their comments.
func parsePackage(t *testing.T, p goPackage) (*token.FileSet, []*ast.File) {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return fset, files
}

// parseText parses an example.
func parseText(t *testing.T, text string) (*token.FileSet, []*ast.File) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "example.go", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return fset, []*ast.File{file}
}

// receiver returns the name of the type that a method belongs to, and the
// receiver without its name and type parameters: "System", "*System".
func receiver(decl *ast.FuncDecl) (name, text string) {
	kind := decl.Recv.List[0].Type
	star, isPointer := kind.(*ast.StarExpr)
	if isPointer {
		kind = star.X
	}
	switch k := kind.(type) {
	case *ast.IndexExpr:
		kind = k.X
	case *ast.IndexListExpr:
		kind = k.X
	}
	name = kind.(*ast.Ident).Name
	if isPointer {
		return name, "*" + name
	}
	return name, name
}

// embeddedName is the name by which an embedded field is known.
func embeddedName(kind ast.Expr) string {
	switch k := kind.(type) {
	case *ast.StarExpr:
		return embeddedName(k.X)
	case *ast.SelectorExpr:
		return k.Sel.Name
	case *ast.IndexExpr:
		return embeddedName(k.X)
	case *ast.IndexListExpr:
		return embeddedName(k.X)
	case *ast.Ident:
		return k.Name
	}
	return ""
}
