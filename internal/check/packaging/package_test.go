// Package packaging tests the packages that `make package` builds.
package packaging

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// bootTimeout is for a container that does not end: it takes seconds.
const bootTimeout = 3 * time.Minute

// TestDebianPackage installs the package, upgrades it, removes it and purges it, under a systemd that
// it boots in a container, whose files are those of this machine and stay as they are.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	nfpm := os.Getenv("GREENROOM_NFPM")
	switch {
	case runtime.GOOS != "linux":
		t.Skip("the package is for Linux")
	case os.Geteuid() != 0:
		t.Skip("only root can start a container")
	case nfpm == "":
		t.Skip("GREENROOM_NFPM does not name the nfpm that builds the package; make test sets it")
	}
	for _, tool := range []string{"dpkg", "systemd-nspawn", "unshare", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed; make setup installs it on Debian", tool)
		}
	}
	dir := t.TempDir()
	for name, version := range map[string]string{"old.deb": "1.0.0", "new.deb": "1.0.1"} {
		build(t, nfpm, dir, name, version)
	}
	script, err := os.ReadFile("testdata/install.sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "install.sh"), script, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), bootTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child", "bash", "testdata/boot.sh", dir).CombinedOutput()
	text, _ := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		console, _ := os.ReadFile(filepath.Join(dir, "console"))
		t.Fatalf("the container: %v\n%s\n%s\n%s", err, out, console, text)
	}
	if !strings.HasSuffix(string(text), "\npassed\n") {
		t.Fatalf("the package does not do what it must:\n%s", text)
	}
	for line := range strings.Lines(string(text)) {
		if what, ok := strings.CutPrefix(line, "== "); ok {
			t.Log(strings.TrimSpace(what))
		}
	}
}

// build builds a package of a version. The server in it is built as other tests build it, so that
// it only has to be linked.
func build(t *testing.T, nfpm, dir, name, version string) {
	t.Helper()
	binary, out := filepath.Join(dir, "greenroom-"+version), filepath.Join(dir, version)
	run(t, nil, "go", "build", "-ldflags", "-X main.release="+version, "-o", binary, "../../../cmd/greenroom")
	run(t, []string{"NFPM=" + nfpm, "OUT=" + out, "VERSION=" + version, "BINARY=" + binary}, "../../../packaging/build.sh")
	for _, kind := range []string{"deb", "rpm"} {
		found, err := filepath.Glob(filepath.Join(out, "*."+kind))
		if err != nil || len(found) != 1 {
			t.Fatalf("built %v, %v; want one package for %s", found, err, kind)
		}
		if kind == "deb" {
			if err := os.Rename(found[0], filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func run(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out.Bytes())
	}
}
