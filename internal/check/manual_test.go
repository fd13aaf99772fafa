package check

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// manual are the packages whose Example tests are their manual: each verb that they
// export is seen at work there, with its output.
var manual = []string{"actor", "router", "eventbus", "schedule", "actortest", "sim"}

// noVerbs are exported functions, methods and constants that need no example of their
// own, each with the reason. A name may end in '*'.
var noVerbs = map[string]string{
	"actor.Strategy.String":     "package fmt calls it",
	"actor.Directive.String":    "package fmt calls it",
	"actor.Lifetime.String":     "package fmt calls it, in ExampleSignificant for one",
	"actor.Overflow.String":     "package fmt calls it",
	"actor.Significance.String": "package fmt calls it",
	"actor.AllSignificant":      "is like AnySignificant, which is in an example",

	"actor.PanicError.Error": "package fmt calls it: ExamplePanicError prints one",
	"actor.Driven*":          "for a Driver, of which package sim has the one there is",
	"actor.Step*":            "for a Driver, too",
	"actor.Carry":            "for a Carrier, of which package remote has the one there is",
	"actor.Far*":             "for a Carrier, too",
	"actor.NewFarRequest":    "for a Carrier, too",
	"actor.NoConnection":     "takes two systems and a Carrier",
	"actor.System.Peers":     "takes two systems and a Carrier",
	"actor.NotAccepted":      "takes two systems and a Carrier",
	"actor.CheckKey":         "for a Place, of which package cluster has the one there is: see its example",
	"actor.Held*":            "for a Place, too",
	"actor.NewVirtual":       "for a Place, too",
	"actor.Passivated":       "for a Place, too",
	"actor.Virtual*":         "for a Place, too",
}

// verbs lists what a package exports to be called or passed: its functions, the methods
// of its types, the constants among which a caller chooses. Methods of its interfaces
// are not among them: they are written, not called, and the types that have them show it.
func verbs(pkg *types.Package) []string {
	var list []string
	for _, name := range pkg.Scope().Names() {
		if !ast.IsExported(name) {
			continue
		}
		switch obj := pkg.Scope().Lookup(name).(type) {
		case *types.Func, *types.Const:
			list = append(list, verbName(obj))
		case *types.TypeName:
			if types.IsInterface(obj.Type()) {
				continue
			}
			for method := range types.NewMethodSet(types.NewPointer(obj.Type())).Methods() {
				if m := method.Obj(); m.Exported() && m.Pkg() == pkg {
					list = append(list, verbName(m))
				}
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list) // two types may embed the same one
}

// verbName is "actor.Ask" for a function and "actor.Ref.Tell" for a method, by the type
// that declares it.
func verbName(obj types.Object) string {
	name := obj.Pkg().Name() + "."
	if f, ok := obj.(*types.Func); ok {
		if recv := f.Signature().Recv(); recv != nil {
			name += receiverName(recv.Type()) + "."
		}
	}
	return name + obj.Name()
}

func receiverName(t types.Type) string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj().Name()
	}
	return t.String()
}

// exampleUses returns the verbs that the Example functions of a test package use,
// themselves or in what they use of their package: an example is its functions and the
// types of its actors. Only examples with an output count, since only those are run.
func exampleUses(files []*ast.File, info *types.Info) map[string]bool {
	u := newUses(files, info)
	for _, e := range doc.Examples(files...) {
		if e.Output != "" || e.EmptyOutput {
			u.visit(e.Code)
		}
	}
	return u.found
}

// testUses returns the verbs that the tests with that prefix use, themselves or in what they
// use of their package.
func testUses(files []*ast.File, info *types.Info, prefix string) map[string]bool {
	u := newUses(files, info)
	for obj, node := range u.decls {
		if f, ok := obj.(*types.Func); ok && f.Signature().Recv() == nil && strings.HasPrefix(f.Name(), prefix) {
			u.visit(node)
		}
	}
	return u.found
}

func newUses(files []*ast.File, info *types.Info) *uses {
	u := &uses{info: info, decls: declarations(files, info), methods: make(map[types.Object][]ast.Node), found: make(map[string]bool), seen: make(map[ast.Node]bool)}
	for obj, node := range u.decls {
		if f, ok := obj.(*types.Func); ok {
			if recv := f.Signature().Recv(); recv != nil {
				if t := receiverType(recv.Type()); t != nil {
					u.methods[t] = append(u.methods[t], node)
				}
			}
		}
	}
	return u
}

type uses struct {
	info    *types.Info
	decls   map[types.Object]ast.Node   // what the test package declares
	methods map[types.Object][]ast.Node // by type
	found   map[string]bool
	seen    map[ast.Node]bool
}

func (u *uses) visit(node ast.Node) {
	if node == nil || u.seen[node] {
		return
	}
	u.seen[node] = true
	ast.Inspect(node, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		obj := u.info.Uses[id]
		if obj == nil || obj.Pkg() == nil {
			return true
		}
		if f, ok := obj.(*types.Func); ok {
			obj = f.Origin()
		}
		u.found[verbName(obj)] = true
		u.visit(u.decls[obj])
		for _, method := range u.methods[obj] {
			u.visit(method)
		}
		return true
	})
}

// declarations maps what is declared at the level of the package to its syntax.
func declarations(files []*ast.File, info *types.Info) map[types.Object]ast.Node {
	decls := make(map[types.Object]ast.Node)
	for _, file := range files {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				decls[info.Defs[d.Name]] = d
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						decls[info.Defs[s.Name]] = s
					case *ast.ValueSpec:
						for _, name := range s.Names {
							decls[info.Defs[name]] = s
						}
					}
				}
			}
		}
	}
	return decls
}

func receiverType(t types.Type) types.Object {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Origin().Obj()
	}
	return nil
}

// unshown lists the verbs that no example uses and no reason excuses, and the reasons
// that nobody needs.
func unshown(all []string, shown map[string]bool, excused map[string]string) []string {
	var findings []string
	needed := make(map[string]bool)
	for _, verb := range all {
		if shown[verb] {
			continue
		}
		excuse := excuseFor(verb, excused)
		needed[excuse] = true
		if excuse == "" {
			findings = append(findings, verb+" is in no Example with an output: write one, or say in noVerbs why it needs none")
		}
	}
	for name := range excused {
		if !needed[name] {
			findings = append(findings, name+" is not exported, or is in an example: take it out of noVerbs")
		}
	}
	slices.Sort(findings)
	return findings
}

// excuseFor returns the entry of excused that the verb has, "" if none.
func excuseFor(verb string, excused map[string]string) string {
	for name := range excused {
		prefix, all := strings.CutSuffix(name, "*")
		if verb == name || all && strings.HasPrefix(verb, prefix) {
			return name
		}
	}
	return ""
}

func TestEachVerbHasAnExampleWithItsOutput(t *testing.T) {
	var patterns []string
	for _, name := range manual {
		patterns = append(patterns, "./"+name)
	}
	sources := listSources(t, patterns...)
	var all []string
	shown := make(map[string]bool)
	for _, name := range manual {
		pkg := module + "/" + name
		all = append(all, verbs(sources.check(pkg).pkg)...)
		tests := sources.check(pkg + "_test [" + pkg + ".test]")
		for verb := range exampleUses(tests.files, tests.info) {
			shown[verb] = shown[verb] || strings.HasPrefix(verb, name+".")
		}
	}
	report(t, unshown(all, shown, noVerbs))
}

// noWorkload are verbs of package actor that the generated workload of package sim need not
// use, each with the reason. A name may end in '*'.
var noWorkload = map[string]string{
	"actor.PanicError*": "packages fmt and errors call them, for what the workload panics with",
	"actor.Driven*":     "for a Driver: package sim is one, and uses what it needs",
	"actor.Step*":       "for a Driver, too",

	"actor.Carry":               "takes two systems: the tests of package remote play over links",
	"actor.Far*":                "takes two systems, too",
	"actor.NewFarRequest":       "takes two systems, too",
	"actor.NoConnection":        "takes two systems, too",
	"actor.System.Peers":        "takes two systems, too",
	"actor.NotAccepted":         "takes two systems, too",
	"actor.CheckKey":            "for a Place: the simulated test of package cluster plays with one",
	"actor.Held*":               "for a Place, too",
	"actor.NewVirtual":          "for a Place, too",
	"actor.Passivated":          "for a Place, too",
	"actor.Virtual*":            "for a Place, too",
	"actor.Decorate":            "for middleware that changes the context, which no player looks at",
	"actor.SetHeader":           "for middleware, too",
	"actor.Context.Incarnation": "for what lives outside of the actor, of which there is nothing",
	"actor.InHandler":           "for packages that make others wait: eventbus tests it",
	"actor.Significant":         "whether a parent stops is no matter of the oracle's",
	"actor.AnySignificant":      "for Significant, too",
	"actor.AllSignificant":      "for Significant, too",
	"actor.AutoStop":            "for Significant, too",
	"actor.StopLast":            "in which order siblings stop is no matter of the oracle's, too",
	"actor.Guardian":            "the oracle knows of one supervision for the children of an actor",
	"actor.Ordered":             "the oracle knows the orders that the engine makes",
	"actor.Later":               "for what goes on outside of the simulation; the bus delivers with it in TestNewsComeInOrderInAnyOrderOfTheRest",
	"actor.Envelope*":           "for Ordered, too",
	"actor.ObserveMailbox":      "adds middleware, and changes nothing",
	"actor.System.Spec":         "looks at what does not change",
	"actor.Strategy.String":     "for people",
	"actor.Directive.String":    "for people",
	"actor.Lifetime.String":     "for people",
	"actor.Overflow.String":     "for people",
	"actor.Significance.String": "for people",
	"actor.StopWithin":          "whether a limit comes first is no matter of the oracle's",
	"actor.System.Profile":      "blocks outside of the simulation, and changes nothing",
	"actor.System.Record":       "blocks outside of the simulation, and changes nothing",
	"actor.Refused":             "a card that middleware refuses is none that the oracle knows of",
	"actor.Ref.Bind":            "for codecs: it is Lookup, of what was read",
	"actor.Ref.MarshalText":     "for codecs: it is PID.MarshalText",
	"actor.Ref.UnmarshalText":   "for codecs: it is PID.UnmarshalText",
	"actor.PID.Incarnation":     "for those who compare it with that of another system",
	"actor.System.Incarnation":  "for those who compare it with that of another system",
}

// workload is how the tests begin that play the generated workload: on the simulator, and on
// the ordinary scheduler.
const workload = "TestTheEngineKeepsItsPromises"

func TestTheGeneratedWorkloadUsesEachVerb(t *testing.T) {
	sources := listSources(t, "./sim")
	tests := sources.check(module + "/sim [" + module + "/sim.test]")
	for _, finding := range unshown(verbs(sources.check(module+"/actor").pkg), testUses(tests.files, tests.info, workload), noWorkload) {
		verb, _, _ := strings.Cut(finding, " ")
		t.Errorf("%s: give the players of sim/workload_test.go a move that uses it, or say in noWorkload why not, or why not any more", verb)
	}
}

// sources checks packages of this module from their source, and reads only what they import
// of others as the compiler has built it: to build a package of tests takes a minute, to check
// it a second.
type sources struct {
	t       *testing.T
	fset    *token.FileSet
	listed  map[string]goPackage
	built   types.Importer
	checked map[string]checkedPackage
}

type checkedPackage struct {
	pkg   *types.Package
	files []*ast.File
	info  *types.Info
}

// listSources returns the packages of these patterns with their tests, and what they import.
func listSources(t *testing.T, patterns ...string) *sources {
	t.Helper()
	s := &sources{t: t, fset: token.NewFileSet(), listed: make(map[string]goPackage), checked: make(map[string]checkedPackage)}
	others := []string{"-export"}
	for _, p := range goList(t, append([]string{"-deps", "-test"}, patterns...)...) {
		s.listed[p.ImportPath] = p
		if !strings.HasPrefix(p.ImportPath, module) && p.ImportPath != "unsafe" {
			others = append(others, p.ImportPath)
		}
	}
	exports := make(map[string]string)
	for _, p := range goList(t, others...) {
		exports[p.ImportPath] = p.Export
	}
	s.built = importer.ForCompiler(s.fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("go list has not built %s", path)
		}
		return os.Open(exports[path])
	})
	return s
}

// check checks a package of this module, once.
func (s *sources) check(path string) checkedPackage {
	s.t.Helper()
	if c, ok := s.checked[path]; ok {
		return c
	}
	p, ok := s.listed[path]
	if !ok {
		s.t.Fatalf("there is no package %s", path)
	}
	c := checkedPackage{info: &types.Info{Uses: make(map[*ast.Ident]types.Object), Defs: make(map[*ast.Ident]types.Object)}}
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(s.fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			s.t.Fatal(err)
		}
		c.files = append(c.files, file)
	}
	importPath, _, _ := strings.Cut(path, " ")
	var err error
	if c.pkg, err = (&types.Config{Importer: importsOf{s, p.ImportMap}}).Check(importPath, s.fset, c.files, c.info); err != nil {
		s.t.Fatal(err)
	}
	s.checked[path] = c
	return c
}

// importsOf finds what a package imports. Its variants say which build of a path is meant: a
// test imports its package with the files that test it.
type importsOf struct {
	sources  *sources
	variants map[string]string
}

// Import implements types.Importer.
func (i importsOf) Import(path string) (*types.Package, error) {
	if variant, ok := i.variants[path]; ok {
		path = variant
	}
	if strings.HasPrefix(path, module) {
		return i.sources.check(path).pkg, nil
	}
	return i.sources.built.Import(path)
}

func TestUnshownFindsWhatHasNoExample(t *testing.T) {
	const library = `package kit

type Dial struct{ base }

type base struct{}

func (base) Turn() {}
func (d *Dial) Press() {}
func (d *Dial) Hold() {}
func (d *Dial) hidden() {}

type Reader interface{ Read() }

const (
	Loud = 1
	Quiet = 2
)

func New() *Dial { return nil }
func Melt() {}
func Break() {}
`
	const examples = `package kit_test

type player struct{ d *kit.Dial }

func (p player) play() { p.d.Press() }

func start() player { return player{kit.New()} }

func ExampleNew() {
	start().d.Turn()
	print(kit.Loud)
	// Output: 1
}

func ExampleMelt() { // not run: it has no output
	kit.Melt()
}

func TestBreak() { kit.Break() }
`
	fset := token.NewFileSet()
	parse := func(name, text string) *ast.File {
		file, err := parser.ParseFile(fset, name, strings.Replace(text, "package kit_test\n", "package kit_test\n\nimport \"kit\"\n", 1), parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	kit, err := (&types.Config{}).Check("kit", fset, []*ast.File{parse("kit.go", library)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files := []*ast.File{parse("example_test.go", examples)}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object), Defs: make(map[*ast.Ident]types.Object)}
	if _, err := (&types.Config{Importer: only{kit}}).Check("kit_test", fset, files, info); err != nil {
		t.Fatal(err)
	}
	wantFindings(t, unshown(verbs(kit), exampleUses(files, info), map[string]string{
		"kit.Qui*": "nobody hears it", "kit.New": "obvious", "kit.Gone*": "was here",
	}),
		"kit.Break is in no Example", "kit.Dial.Hold is in no Example", "kit.Gone* is not exported",
		"kit.Melt is in no Example", "kit.New is not exported, or is in an example",
	)
}

// only is an importer that knows one package.
type only struct{ pkg *types.Package }

func (o only) Import(path string) (*types.Package, error) {
	if path != o.pkg.Path() {
		return nil, fmt.Errorf("no package %s", path)
	}
	return o.pkg, nil
}
