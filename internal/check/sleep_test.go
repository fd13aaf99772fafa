package check

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// sleepsAllowed are the test files that may call time.Sleep outside of a
// bubble, each with the reason why they may.
var sleepsAllowed = map[string]string{
	"actor/books_test.go": "what sleeps is run in a bubble, one function further",
	"actor/fence_test.go": "what sleeps is run in a bubble, further down",

	"server/front_test.go": "no event says that a deadline of a real connection has passed without effect",

	"server/mqtt/flow_test.go":    "inBubble runs what sleeps in a bubble",
	"server/mqtt/outbox_test.go":  "inBubble runs what sleeps in a bubble",
	"server/mqtt/session_test.go": "inBubble runs what sleeps in a bubble",
}

// sleeps lists the calls of time.Sleep in a file that are outside of a function
// given to synctest.Test or actortest.Run. Inside, time is virtual: a sleep
// costs nothing and ends when everything else is at rest.
func sleeps(fset *token.FileSet, file *ast.File) []string {
	var findings []string
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if isCall(call, "synctest", "Test") || isCall(call, "actortest", "Run") {
			return false
		}
		if isCall(call, "time", "Sleep") {
			at := fset.Position(call.Pos())
			findings = append(findings, fmt.Sprintf("%s:%d: time.Sleep in a test: wait for the event, or run it in a synctest bubble", strings.TrimPrefix(at.Filename, root+"/"), at.Line))
		}
		return true
	})
	return findings
}

func isCall(call *ast.CallExpr, pkg, name string) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != name {
		return false
	}
	id, ok := selector.X.(*ast.Ident)
	return ok && id.Name == pkg
}

func TestNoTestSleeps(t *testing.T) {
	used := make(map[string]bool)
	for _, name := range withExt(t, ".go") {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, root+"/"+name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		findings := sleeps(fset, file)
		if sleepsAllowed[name] != "" && len(findings) > 0 {
			used[name] = true
			continue
		}
		report(t, findings)
	}
	for name := range sleepsAllowed {
		if !used[name] {
			t.Errorf("%s no longer sleeps: take it off the list", name)
		}
	}
}

func TestSleepsFindsThoseOutsideOfABubble(t *testing.T) {
	fset, files := parseText(t, `package example

func TestBad(t *testing.T) {
	go func() { time.Sleep(time.Second) }()
}

func TestGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { time.Sleep(time.Hour) })
	actortest.Run(t, func(k *actortest.Kit) { time.Sleep(time.Hour) })
	clock.Sleep(1)
}

func TestWorse(t *testing.T) {
	time.Sleep(1)
}
`)
	wantFindings(t, sleeps(fset, files[0]), "example.go:4:", "example.go:14:")
}
