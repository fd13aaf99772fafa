package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/greenroom-go/greenroom"

// root is the repository's folder, seen from this package's.
const root = "../.."

// goPackage is what these tests read of `go list -json`.
type goPackage struct {
	Dir        string
	ImportPath string
	Name       string
	GoFiles    []string
	CgoFiles   []string
	Imports    []string
	Deps       []string
	Standard   bool
	Export     string            // with -export: the file of its compiled interface
	ImportMap  map[string]string // where another build of a package is meant than the plain one
}

// path is the import path without the module's: "actor", "entity/sqlite".
func (p goPackage) path() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// public reports whether another module can import the package.
func (p goPackage) public() bool {
	return p.Name != "main" && len(p.GoFiles) > 0 &&
		!slices.Contains(strings.Split(p.path(), "/"), "internal") &&
		!strings.HasPrefix(p.path(), "examples/")
}

// goList runs `go list -json` in the repository.
func goList(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json"}, args...)...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatalf("go list %s: %v", strings.Join(args, " "), err)
		}
		packages = append(packages, p)
	}
}

// modulePackages returns the packages of this module. Those that a folder of
// the repository promises must be among them, or a rule would hold for want of
// anything to hold for.
func modulePackages(t *testing.T, args ...string) []goPackage {
	t.Helper()
	packages := slices.DeleteFunc(goList(t, append(args, "./...")...), func(p goPackage) bool {
		return strings.Contains(p.path(), "node_modules/")
	})
	for _, promised := range []string{"actor", "entity", "server", "cmd/greenroom"} {
		found := slices.ContainsFunc(packages, func(p goPackage) bool { return p.path() == promised })
		if files, _ := filepath.Glob(filepath.Join(root, promised, "*.go")); len(files) > 0 && !found {
			t.Fatalf("the folder %s has Go files, but go list finds no such package", promised)
		}
	}
	return packages
}

var trackedOnce = sync.OnceValues(func() ([]string, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	if out, err := cmd.Output(); err == nil {
		return existing(strings.Split(strings.Trim(string(out), "\x00"), "\x00")), nil
	}
	return walk()
})

// trackedFiles returns the repository's files, relative to its folder and with
// slashes: those that git knows or would take with `git add .`, and where there
// is no git (a source archive), all that are there.
func trackedFiles(t *testing.T) []string {
	t.Helper()
	files, err := trackedOnce()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(files, "go.mod") {
		t.Fatalf("go.mod is not among the %d files found in the repository", len(files))
	}
	return files
}

// existing drops what git still lists and the work tree has lost.
func existing(files []string) []string {
	return slices.DeleteFunc(files, func(name string) bool {
		info, err := os.Stat(filepath.Join(root, name))
		return err != nil || info.IsDir()
	})
}

func walk() ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "node_modules", "bin"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		relative, err := filepath.Rel(root, name)
		if err == nil {
			files = append(files, filepath.ToSlash(relative))
		}
		return err
	})
	return files, err
}

// readTracked returns the content of a file of the repository.
func readTracked(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// withExt returns the tracked files with the extension.
func withExt(t *testing.T, ext string) []string {
	t.Helper()
	var found []string
	for _, name := range trackedFiles(t) {
		if path.Ext(name) == ext {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		t.Fatalf("the repository has no *%s file at all", ext)
	}
	return found
}

// report fails the test with one line for each finding.
func report(t *testing.T, findings []string) {
	t.Helper()
	for _, finding := range findings {
		t.Error(finding)
	}
}

// wantFindings compares what a rule found in an example with what is wrong
// with the example: one part of each finding's text.
func wantFindings(t *testing.T, got []string, parts ...string) {
	t.Helper()
	if len(got) != len(parts) {
		t.Fatalf("got %d findings, want %d:\n  %s", len(got), len(parts), strings.Join(got, "\n  "))
	}
	for i, part := range parts {
		if !strings.Contains(got[i], part) {
			t.Errorf("finding %d is %q, want something with %q", i, got[i], part)
		}
	}
}
