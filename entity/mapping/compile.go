package mapping

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	exprparser "github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
)

// Expressions are compiled and run by expr-lang/expr, which as a language has
// more than what may be let in here: closures over arrays, ranges, variables
// and builtins make programs of a few bytes that run for hours or take all
// memory, and neither can be stopped. So an expression passes a gate on its
// syntax tree, which knows what is allowed and refuses everything else. What
// passes has no loop and makes nothing larger than its inputs: it ends after as
// many steps as it has nodes.
//
// A second reason for going over the tree is the meaning of operators. Behind
// the gate each of them becomes a call of a function of ours (functions.go):
// integers stay integers and do not wrap around, and what is missing makes what
// is computed of it missing.

// formula is a compiled expression. It is not changed after it was made.
type formula struct {
	program *vm.Program
	names   []string // of the sources in the environment
	// lazy says that it may have a value while one of its sources has none.
	lazy bool
}

// sourceName is what a source is called in the environment of a program.
func sourceName(i int) string { return "s" + strconv.Itoa(i) }

// compile makes the formula of the field that was read.
func (p *parser) compile(f *Field) error {
	if f.lone() != nil {
		f.formula = &formula{}
		return nil
	}
	var b strings.Builder
	starts := make([]int, len(f.items)) // in runes of the generated text, which is ASCII
	for i, it := range f.items {
		b.WriteByte(' ')
		starts[i] = b.Len()
		switch it.kind {
		case itemSource:
			b.WriteString(sourceName(it.source))
		case itemText:
			b.WriteString(strconv.QuoteToASCII(it.text))
		case itemWord:
			b.WriteString(map[string]string{"null": "nil"}[it.text])
			if it.text != "null" {
				b.WriteString(it.text)
			}
		default:
			b.WriteString(it.text)
		}
	}
	var err error
	if f.formula, err = compileFormula(b.String(), len(f.Sources)); err != nil {
		return p.blame(f, starts, err)
	}
	return nil
}

// blame turns an error of the compiler into one at the place in the statement.
func (p *parser) blame(f *Field, starts []int, err error) error {
	var at *file.Error
	if !errors.As(err, &at) {
		return syntaxError(p.src, f.items[0].at, "%v", err)
	}
	i := len(starts) - 1
	for i > 0 && at.From < starts[i] {
		i--
	}
	switch {
	case strings.Contains(at.Message, "EOF"), strings.Contains(at.Message, "unexpected end"):
		return p.fail(p.now(), "the expression is not complete")
	case strings.HasPrefix(at.Message, "unexpected token"):
		return syntaxError(p.src, f.items[i].at, "%s is not expected here", brief(f.text(f.items[i])))
	}
	return syntaxError(p.src, f.items[i].at, "%s", at.Message)
}

// options are how expressions are read and compiled.
func options(sources int) []expr.Option {
	env := types.Map{}
	for i := range sources {
		env[sourceName(i)] = types.Any
	}
	list := []expr.Option{
		expr.Env(env), expr.DisableAllBuiltins(), expr.DisableIfOperator(), expr.MaxNodes(MaxNodes), expr.Optimize(false), expr.AsAny(),
	}
	for name, fn := range functions {
		list = append(list, expr.Function(name, fn.call))
	}
	for name, fn := range operators {
		list = append(list, expr.Function(name, fn))
	}
	return list
}

// compileFormula lets the text of an expression through the gate and compiles
// it. The sources are s0, s1 and so on.
func compileFormula(text string, sources int) (*formula, error) {
	list := options(sources)
	config := conf.CreateNew()
	for _, option := range list {
		option(config)
	}
	tree, err := exprparser.ParseWithConfig(text, config)
	if err != nil {
		return nil, err
	}
	g := gate{sources: sources, seen: make(map[ast.Node]bool)}
	if err := g.check(tree.Node, 0); err != nil {
		return nil, err
	}
	f := &formula{lazy: g.lazy}
	for i := range sources {
		f.names = append(f.names, sourceName(i))
	}
	if f.program, err = expr.Compile(text, append(list, expr.Patch(lowerer{}))...); err != nil {
		return nil, err
	}
	return f, nil
}

// gate decides what may be in an expression.
type gate struct {
	sources int
	seen    map[ast.Node]bool
	lazy    bool
}

func refuse(n ast.Node, format string, args ...any) error {
	return &file.Error{Location: n.Location(), Message: fmt.Sprintf(format, args...)}
}

// check lets a tree through or says what is not allowed. It comes to each node
// once: expr-lang shares the middle of a < b < c between two comparisons, so that
// the work would double with each such comparison within another.
func (g *gate) check(n ast.Node, depth int) error {
	if n == nil {
		return &file.Error{Message: "the expression is not complete"}
	}
	if g.seen[n] {
		return refuse(n, "two comparisons in a row; a < b and b < c is how to write it")
	}
	if g.seen[n] = true; depth > 2*MaxNesting {
		return refuse(n, "nested deeper than %d", 2*MaxNesting)
	}
	switch n := n.(type) {
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode:
		return nil
	case *ast.IdentifierNode:
		for i := range g.sources {
			if n.Value == sourceName(i) {
				return nil
			}
		}
		return refuse(n, "there is no value %q", n.Value)
	case *ast.UnaryNode:
		if _, ok := unaryOperators[n.Operator]; !ok {
			return refuse(n, "the operator %s is not allowed", n.Operator)
		}
		return g.check(n.Node, depth+1)
	case *ast.BinaryNode:
		return g.checkBinary(n, depth)
	case *ast.ConditionalNode:
		g.lazy = true
		return g.checkAll(depth, n.Cond, n.Exp1, n.Exp2)
	case *ast.CallNode:
		return g.checkCall(n, depth)
	default:
		return refuse(n, "%s is not allowed in an expression", describe(n))
	}
}

func (g *gate) checkAll(depth int, nodes ...ast.Node) error {
	for _, n := range nodes {
		if err := g.check(n, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (g *gate) checkBinary(n *ast.BinaryNode, depth int) error {
	switch n.Operator {
	case "??", "and", "or", "&&", "||":
		g.lazy = true
	default:
		if _, ok := binaryOperators[n.Operator]; !ok {
			return refuse(n, "the operator %s is not allowed", n.Operator)
		}
	}
	return g.checkAll(depth, n.Left, n.Right)
}

func (g *gate) checkCall(n *ast.CallNode, depth int) error {
	callee, ok := n.Callee.(*ast.IdentifierNode)
	if !ok {
		return refuse(n, "only functions can be called")
	}
	fn, ok := functions[callee.Value]
	if !ok {
		return refuse(n, "there is no function %s; there are %s", callee.Value, functionNames())
	}
	if got := len(n.Arguments); got < fn.least || got > fn.most {
		return refuse(n, "%s has %d arguments; %s is right", callee.Value, got, fn.usage)
	}
	g.lazy = g.lazy || fn.lazy
	return g.checkAll(depth, n.Arguments...)
}

// describe names what the gate refuses.
func describe(n ast.Node) string {
	switch n := n.(type) {
	case *ast.BuiltinNode:
		return "the function " + n.Name
	case *ast.PredicateNode, *ast.PointerNode:
		return "a closure"
	case *ast.VariableDeclaratorNode:
		return "a variable"
	case *ast.SequenceNode:
		return "a sequence of expressions"
	case *ast.ArrayNode, *ast.MapNode, *ast.PairNode:
		return "an array or a map"
	case *ast.MemberNode, *ast.SliceNode, *ast.ChainNode:
		return "a part of a value"
	default:
		return fmt.Sprintf("%T", n)
	}
}

// lowerer turns operators into calls of our functions.
type lowerer struct{}

// Visit replaces one node, whose children have been visited.
func (lowerer) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.UnaryNode:
		if n.Operator == "not" || n.Operator == "!" {
			condition(&n.Node)
			return
		}
		replace(node, unaryOperators[n.Operator], n.Node)
	case *ast.BinaryNode:
		switch n.Operator {
		case "??":
		case "and", "or", "&&", "||":
			condition(&n.Left)
			condition(&n.Right)
		default:
			replace(node, binaryOperators[n.Operator], n.Left, n.Right)
		}
	case *ast.ConditionalNode:
		condition(&n.Cond)
	}
}

// condition makes a node a bool, or the end of the evaluation.
func condition(node *ast.Node) { replace(node, "_condition", *node) }

func replace(node *ast.Node, name string, args ...ast.Node) {
	ast.Patch(node, &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: args})
}

var unaryOperators = map[string]string{"-": "_negate", "+": "_number", "not": "", "!": ""}

var binaryOperators = map[string]string{
	"+": "_add", "-": "_subtract", "*": "_multiply", "/": "_divide", "%": "_remainder", "**": "_power", "^": "_power",
	"<": "_less", "<=": "_at_most", ">": "_greater", ">=": "_at_least", "==": "_equal", "!=": "_unequal",
}
