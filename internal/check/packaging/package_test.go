// Package packaging tests the packages that `make package` builds.
package packaging

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// bootTimeout is for a container that does not end: it takes seconds.
const bootTimeout = 3 * time.Minute

// built is where the packages are: two versions, old and new, of each kind.
var built string

func TestMain(m *testing.M) {
	var err error
	if built, err = os.MkdirTemp("", "greenroom-packages-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(built) // of no use to anybody
	os.Exit(code)
}

// packages builds the packages, once for all tests.
var packages = sync.OnceValue(func() error {
	for name, version := range map[string]string{"old": "1.0.0", "new": "1.0.1"} {
		if err := build(os.Getenv("GREENROOM_NFPM"), name, version); err != nil {
			return err
		}
	}
	return nil
})

// need skips the test where packages are neither built nor installed.
func need(t *testing.T, tools ...string) {
	t.Helper()
	switch {
	case runtime.GOOS != "linux":
		t.Skip("the package is for Linux")
	case os.Geteuid() != 0:
		t.Skip("only root can install packages")
	case os.Getenv("GREENROOM_NFPM") == "":
		t.Skip("GREENROOM_NFPM does not name the nfpm that builds the package; make test sets it")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed; make setup installs it on Debian", tool)
		}
	}
	if err := packages(); err != nil {
		t.Fatal(err)
	}
}

// TestDebianPackage installs the package, upgrades it, removes it and purges it, under a systemd that
// it boots in a container, whose files are those of this machine and stay as they are.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	need(t, "dpkg", "systemd-nspawn", "unshare", "curl")
	dir := t.TempDir()
	for _, name := range []string{"old.deb", "new.deb"} {
		if err := os.Symlink(filepath.Join(built, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
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

// TestRPMPackage looks at what is in the RPM and at its scripts, and unpacks it, an upgrade with a
// configuration that was changed, and its removal, in a directory: there is no system with RPM to
// install it on, so that TestRPMScripts runs the scripts.
func TestRPMPackage(t *testing.T) {
	t.Parallel()
	need(t, "rpm")
	file := func(name string) string { return filepath.Join(built, name+".rpm") }
	const files = "[%{FILEMODES:perms} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILEFLAGS:fflags} %{FILENAMES}\n]"
	same(t, "files", query(t, file("new"), files), `-rw-r----- root:greenroom cn /etc/greenroom/greenroom.toml
-rwxr-xr-x root:root  /usr/bin/greenroom
-rw-r--r-- root:root  /usr/lib/systemd/system/greenroom.service
-rw-r--r-- root:root  /usr/share/doc/greenroom/copyright
`)
	same(t, "names", query(t, file("new"), "%{NAME} %{VERSION} %{LICENSE}"), "greenroom 1.0.1 Apache-2.0")
	needs := query(t, file("new"), "[%{REQUIRENAME}\n]")
	for _, name := range []string{"systemd", "shadow-utils"} {
		if !strings.Contains(needs, name+"\n") {
			t.Errorf("it needs %q, want %s among it", needs, name)
		}
	}
	for tag, source := range map[string]string{"PREIN": "pre", "POSTIN": "post", "PREUN": "preun", "POSTUN": "postun"} {
		script := query(t, file("new"), "%{"+tag+"}")
		want, err := os.ReadFile(filepath.Join("../../../packaging/rpm", source))
		if err != nil {
			t.Fatal(err)
		}
		same(t, tag, strings.TrimSpace(script), strings.TrimSpace(string(want)))
		check := exec.CommandContext(t.Context(), "sh", "-n")
		check.Stdin = strings.NewReader(script)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", tag, err, out)
		}
	}

	root := t.TempDir()
	rpm := func(args ...string) {
		t.Helper()
		if err := run(t.Context(), nil, "rpm", append([]string{"--root", root, "--nodeps", "--noscripts"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(root, name) }
	binary := func(version string) {
		t.Helper()
		got, err := os.ReadFile(at("usr/bin/greenroom"))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(built, "greenroom-"+version))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("the program is not that of %s: %v", version, err)
		}
	}
	rpm("-i", "--ignorearch", "--ignoreos", file("old"))
	binary("1.0.0")
	config := at("etc/greenroom/greenroom.toml")
	if err := os.WriteFile(config, []byte("# mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rpm("-U", "--ignorearch", "--ignoreos", file("new"))
	binary("1.0.1")
	if text, err := os.ReadFile(config); string(text) != "# mine\n" {
		t.Errorf("the configuration after the upgrade: %q, %v", text, err)
	}
	rpm("-e", "greenroom")
	for _, name := range []string{"usr/bin/greenroom", "usr/lib/systemd/system/greenroom.service"} {
		if _, err := os.Stat(at(name)); !os.IsNotExist(err) {
			t.Errorf("%s after the removal: %v", name, err)
		}
	}
	if text, err := os.ReadFile(config + ".rpmsave"); string(text) != "# mine\n" {
		t.Errorf("the configuration after the removal: %q, %v", text, err)
	}
}

// TestRPMScripts runs the scripts of the RPM in the order and with the arguments of an installation,
// an upgrade and a removal, where systemd seems to run and what they call only says that it was called.
func TestRPMScripts(t *testing.T) {
	t.Parallel()
	need(t, "rpm", "unshare")
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	const called = "#!/bin/sh\necho \"${0##*/} $*\" >>\"$LOG\"\n"
	for name, then := range map[string]string{
		"systemctl": "", "groupadd": `touch "$LOG.group"`, "useradd": `touch "$LOG.passwd"`, "getent": `test -e "$LOG.$1"`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(called+then+"\n"), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	file := filepath.Join(built, "new.rpm")
	// perform runs a script and returns what it called.
	perform := func(tag, arg string) string {
		t.Helper()
		const begin = `mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec sh -e -c "$1" "$2" "$3"`
		if err := os.WriteFile(log, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		env := []string{"LOG=" + log, "PATH=" + dir + ":" + os.Getenv("PATH")}
		if err := run(t.Context(), env, "unshare", "--mount", "sh", "-c", begin, "sh", query(t, file, "%{"+tag+"}"), tag, arg); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const (
		user    = "--system --gid greenroom --home-dir /var/lib/greenroom --no-create-home --shell /sbin/nologin --comment Greenroom server greenroom"
		known   = "getent group greenroom\ngetent passwd greenroom\n"
		reload  = "systemctl --system daemon-reload\n"
		enable  = "systemctl --no-reload preset greenroom.service\n"
		restart = "systemctl try-restart greenroom.service\n"
		disable = "systemctl --no-reload disable --now greenroom.service\n"
	)
	for _, step := range []struct{ what, tag, arg, want string }{
		{"an installation makes the user", "PREIN", "1", "getent group greenroom\ngroupadd --system greenroom\ngetent passwd greenroom\nuseradd " + user + "\n"},
		{"and enables the server as the presets say", "POSTIN", "1", reload + enable},
		{"an upgrade finds the user", "PREIN", "2", known},
		{"and leaves it enabled or not", "POSTIN", "2", reload},
		{"the old version does not stop it", "PREUN", "1", ""},
		{"and restarts it", "POSTUN", "1", reload + restart},
		{"a removal stops and disables it", "PREUN", "0", disable},
		{"and makes systemd forget it", "POSTUN", "0", reload},
	} {
		same(t, step.what, perform(step.tag, step.arg), step.want)
	}
}

// query asks for something of an RPM.
func query(t *testing.T, file, format string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "rpm", "-qp", "--nosignature", "--qf", format, file)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, complaints.Bytes())
	}
	return string(out)
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

// build builds the packages of a version. The server in them is built as other tests build it, so
// that it only has to be linked.
func build(nfpm, name, version string) error {
	ctx := context.Background()
	binary, out := filepath.Join(built, "greenroom-"+version), filepath.Join(built, version)
	if err := run(ctx, nil, "go", "build", "-ldflags", "-X main.release="+version, "-o", binary, "../../../cmd/greenroom"); err != nil {
		return err
	}
	if err := run(ctx, []string{"NFPM=" + nfpm, "OUT=" + out, "VERSION=" + version, "BINARY=" + binary}, "../../../packaging/build.sh"); err != nil {
		return err
	}
	for _, kind := range []string{"deb", "rpm"} {
		found, err := filepath.Glob(filepath.Join(out, "*."+kind))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("built %v, %w; want one package for %s", found, err, kind)
		}
		if err := os.Rename(found[0], filepath.Join(built, name+"."+kind)); err != nil {
			return err
		}
	}
	return nil
}

func run(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}
