package lua

import (
	"fmt"
	"reflect"
	"strings"

	glua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// The limits of a text that is compiled. The compiler looks for each constant among all those of
// the function, and for the end of a statement or an expression again at each level around it:
// without these limits a text of 256 KiB keeps it busy for many seconds, which nobody counts.
const (
	maxLevels  = 500
	maxLookups = 1 << 26 // of constants: places times different ones, summed over the functions
)

// compileSource compiles the text of a file, or what takes its place.
func compileSource(file, source string) (chunk *glua.FunctionProto, err error) {
	defer func() { // the compiler panics where it gives up
		if p := recover(); p != nil {
			chunk, err = nil, &Error{Text: fmt.Sprintf("%s: %v", file, p)}
		}
	}()
	tree, err := parse.Parse(strings.NewReader(source), file)
	if err != nil {
		return nil, &Error{Text: strings.TrimSpace(err.Error())}
	}
	if err := checkTree(file, tree); err != nil {
		return nil, err
	}
	chunk, err = glua.Compile(tree, file)
	if err != nil {
		return nil, &Error{Text: strings.TrimSpace(err.Error())}
	}
	limitRoom(chunk)
	return chunk, nil
}

// limitRoom has constructors make tables with room for a few fields. The compiler asks for room for
// all that are written, of which none may come to be: those of a list are among them, and those
// that are nil. Nothing tells afterwards how much room a map has.
func limitRoom(code *glua.FunctionProto) {
	for i, inst := range code.Code {
		if inst := instruction(inst); inst.op() == glua.OP_NEWTABLE && inst.c() > maxRoom {
			code.Code[i] = uint32(inst&^(0x1ff<<9) | maxRoom<<9)
		}
	}
	for _, inner := range code.FunctionPrototypes {
		limitRoom(inner)
	}
}

// maxRoom is how many fields have room in the smallest map.
const maxRoom = 8

// survey measures what a syntax tree costs to compile.
type survey struct {
	file    string
	lookups int
	names   map[string]struct{} // the constants of the function
	places  int                 // where they are
}

// checkTree fails where a text would take too long to compile.
func checkTree(file string, tree []ast.Stmt) error {
	s := &survey{file: file}
	return s.function(1, reflect.ValueOf(tree), 0)
}

// function measures the body of a function, which begins at a line.
func (s *survey) function(line int, body reflect.Value, levels int) error {
	outer := *s
	s.names, s.places = map[string]struct{}{}, 0
	if err := s.look(body, line, levels); err != nil {
		return err
	}
	s.lookups += len(s.names) * s.places
	if s.lookups > maxLookups {
		return &Error{Text: fmt.Sprintf("%s:%d: a function has %d different names, numbers and strings in %d places: distribute them among several", s.file, line, len(s.names), s.places)}
	}
	s.names, s.places = outer.names, outer.places
	return nil
}

// look measures a part of a tree.
func (s *survey) look(v reflect.Value, line, levels int) error {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		if at, ok := reflect.TypeAssert[ast.PositionHolder](v); ok && v.Kind() == reflect.Pointer {
			if line, levels = max(line, at.Line()), levels+1; levels > maxLevels {
				return &Error{Text: fmt.Sprintf("%s:%d: more than %d levels of statements and expressions", s.file, line, maxLevels)}
			}
			if f, ok := at.(*ast.FunctionExpr); ok {
				return s.function(line, reflect.ValueOf(f.Stmts), levels)
			}
			s.note(at)
		}
		return s.look(v.Elem(), line, levels)
	case reflect.Slice:
		for i := range v.Len() {
			if err := s.look(v.Index(i), line, levels); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if err := s.look(v.Field(i), line, levels); err != nil {
				return err
			}
		}
	default: // has no parts
	}
	return nil
}

// note counts what may be a constant.
func (s *survey) note(node ast.PositionHolder) {
	name := ""
	switch n := node.(type) {
	case *ast.NumberExpr:
		name = n.Value
	case *ast.StringExpr:
		name = n.Value
	case *ast.IdentExpr:
		name = n.Value
	case *ast.FuncCallExpr:
		name = n.Method
	}
	if name != "" {
		s.names[name] = struct{}{}
		s.places++
	}
}
