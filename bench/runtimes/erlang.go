package runtimes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/greenroom-go/greenroom/bench/erlang"
	"github.com/greenroom-go/greenroom/bench/workload"
)

// erlangProcesses is the virtual machine's limit of processes, above what the
// workload skynet has.
const erlangProcesses = 4_000_000

// notMeasured is why a workload is not measured here.
const notMeasured = "nobody has written it"

func erlangOTP() Runtime {
	return Runtime{
		Name: "erlang", Kind: Reference,
		About:   "a process for each actor, integers as messages, `make_ref` for answers; a program of its own with as many schedulers",
		Lacks:   map[string]string{"idle": "the bar is about Greenroom alone", "remote": notMeasured, "remoteask": notMeasured},
		Fewer:   map[string]int{"spawn": 300_000},
		Program: erl{},
	}
}

// errNoErlang is what Find says.
var errNoErlang = errors.New("erl or erlc is not found: scripts/setup-bench.sh installs Debian's erlang-base")

type erl struct{}

// Find looks for the compiler and the virtual machine.
func (erl) Find() error {
	for _, name := range []string{"erl", "erlc"} {
		if _, err := exec.LookPath(name); err != nil {
			return errNoErlang
		}
	}
	return nil
}

// Version is that of OTP and of the virtual machine.
func (erl) Version(ctx context.Context) string {
	const ask = `io:format("OTP ~s, erts ~s", [erlang:system_info(otp_release), erlang:system_info(version)]), halt().`
	out, err := exec.CommandContext(ctx, "erl", "-noinput", "-eval", ask).Output()
	if err != nil {
		return "unknown: " + err.Error()
	}
	return strings.TrimSpace(string(out))
}

// Prepare compiles the workloads.
func (erl) Prepare(ctx context.Context, dir string) error {
	source := filepath.Join(dir, erlang.Module+".erl")
	if err := os.WriteFile(source, erlang.Source, 0o600); err != nil {
		return fmt.Errorf("erlang: %w", err)
	}
	out, err := exec.CommandContext(ctx, "erlc", "-o", dir, source).CombinedOutput()
	if err != nil {
		return fmt.Errorf("erlc %s.erl: %w\n%s", erlang.Module, err, out)
	}
	return nil
}

// Command starts a virtual machine with a scheduler for each processor.
func (erl) Command(ctx context.Context, dir, name string, size workload.Size, procs int) *exec.Cmd {
	schedulers := fmt.Sprintf("%d:%d", procs, procs)
	return exec.CommandContext(ctx, "erl", "-noinput", "+S", schedulers, "+P", strconv.Itoa(erlangProcesses),
		"-pa", dir, "-run", erlang.Module, "main", name,
		strconv.Itoa(size.Ops), strconv.Itoa(size.Actors), strconv.FormatInt(size.Window.Milliseconds(), 10))
}
