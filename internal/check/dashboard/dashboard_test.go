package dashboard

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// root is the repository's folder, seen from this package's.
const root = "../../.."

// The binary embeds server/dist, which is built from web/ and committed. Here
// web/ is built again in a folder of its own, its types are checked and its own
// tests are run, so that what is embedded is what its source says.
func TestDashboardIsWhatItsSourceBuilds(t *testing.T) {
	if version := nodeVersion(t); version < minNode {
		t.Skipf("Node.js %d with npm is needed, and %d is here (0 for none): nobody has checked that server/dist is what web/ builds", minNode, version)
	}
	built := t.TempDir()
	for name, content := range files(t, filepath.Join(root, "web")) {
		target := filepath.Join(built, "web", name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	web := filepath.Join(built, "web")
	if out, err := npm(t, web, "ci", "--no-audit", "--no-fund"); err != nil {
		if unreachable.MatchString(out) {
			t.Skip("npm reaches no registry: nobody has checked here that server/dist is what web/ builds")
		}
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	for _, script := range []string{"check", "test", "build"} {
		if out, err := npm(t, web, "run", script); err != nil {
			t.Errorf("npm run %s: %v\n%s", script, err, out)
		}
	}
	differences := treeDiff(files(t, filepath.Join(root, "server", "dist")), files(t, filepath.Join(built, "server", "dist")))
	for _, difference := range differences {
		t.Errorf("server/dist/%s; `make web` builds it anew", difference)
	}
}

// minNode is the version of Node.js that web/package.json asks for.
const minNode = 20

// nodeVersion returns the major version of Node.js, 0 without it or without npm.
func nodeVersion(t *testing.T) (major int) {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		return 0
	}
	out, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	if _, err2 := fmt.Sscanf(string(out), "v%d.", &major); err != nil || err2 != nil {
		return 0
	}
	return major
}

// unreachable matches what npm says when there is no way to a registry, which
// says nothing about the dashboard.
var unreachable = regexp.MustCompile(`\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH)\b`)

func npm(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "npm", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// files reads all files under a folder, by their path within it, but for what npm
// has installed there.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	found := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "node_modules" {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		found[filepath.ToSlash(relative)] = content
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatalf("%s has no files", dir)
	}
	return found
}

// treeDiff compares what is committed with what was built.
func treeDiff(committed, built map[string][]byte) []string {
	var differences []string
	for name, content := range built {
		if have, ok := committed[name]; !ok {
			differences = append(differences, fmt.Sprintf("%s is missing", name))
		} else if !bytes.Equal(have, content) {
			differences = append(differences, fmt.Sprintf("%s is not what web/ builds", name))
		}
	}
	for name := range committed {
		if _, ok := built[name]; !ok {
			differences = append(differences, fmt.Sprintf("%s is no longer built", name))
		}
	}
	slices.Sort(differences)
	return differences
}

func TestTreeDiffFindsEachDifference(t *testing.T) {
	got := treeDiff(
		map[string][]byte{"same": []byte("a"), "changed": []byte("a"), "old": []byte("a")},
		map[string][]byte{"same": []byte("a"), "changed": []byte("b"), "new": []byte("a")},
	)
	if want := []string{"changed is not what web/ builds", "new is missing", "old is no longer built"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
