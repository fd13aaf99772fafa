package report

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// Machine describes the processor and the memory, as far as the system tells.
func Machine() string {
	text := fmt.Sprintf("%d processors", runtime.NumCPU())
	if model := fieldOf("/proc/cpuinfo", "model name"); model != "" {
		text += " " + model
	}
	if kb, err := strconv.Atoi(strings.TrimSuffix(fieldOf("/proc/meminfo", "MemTotal"), " kB")); err == nil {
		text += fmt.Sprintf(", %.0f GiB", float64(kb)/(1<<20))
	}
	return text
}

// System names the operating system.
func System() string {
	text := runtime.GOOS + "/" + runtime.GOARCH
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		text += " " + strings.TrimSpace(string(release))
	}
	return text
}

// Revision names the commit that the program was built from, if it was built
// from one.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown commit"
	}
	commit, state := "unknown commit", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			state = " with changes"
		}
	}
	return commit + state
}

// fieldOf returns the value of the first line "name: value" of a file.
func fieldOf(name, field string) string {
	file, err := os.Open(filepath.Clean(name))
	if err != nil {
		return ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(key) == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
