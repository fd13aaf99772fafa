// Package codectest keeps what earlier releases wrote, and fails when today's types can no longer
// read it.
package codectest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/codec"
)

// ReleaseVariable is the environment variable that names the release whose samples
// [Golden] writes.
const ReleaseVariable = "GREENROOM_GOLDEN"

var releaseName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Golden reads the files in dir, one for each release, with values that the release wrote, and
// reports what today's types can no longer read: an unknown name, bytes that cannot be decoded, and
// fields whose values would be lost because they now have another name or type. See [codec.From],
// [codec.Was] and [codec.Dropped] for the remedies.
//
// Each sample must survive the round trip unchanged, and each type of types must have a value in
// one of the files. Before a release, write its file:
//
//	GREENROOM_GOLDEN=v1.4.0 go test -run TestGolden ./cart
//
// with one or several samples of each type, with all fields set. The file is never written again:
// what is in the journals does not change either.
func Golden(t testing.TB, types *codec.Types, dir string, samples ...any) {
	t.Helper()
	for _, v := range samples {
		checkSample(t, types, v)
	}
	if release := os.Getenv(ReleaseVariable); release != "" {
		if err := write(types, dir, release, samples); err != nil {
			t.Errorf("write the golden file of %s: %v", release, err)
		}
	}
	found, err := readAll(t, types, dir)
	if err != nil {
		t.Errorf("read the golden files: %v", err)
		return
	}
	for _, name := range types.Names() {
		if !found[name] {
			t.Errorf("%s is in no file of %s: give a sample of it, and run the test with %s=<release>", name, dir, ReleaseVariable)
		}
	}
}

func checkSample(t testing.TB, types *codec.Types, v any) {
	t.Helper()
	name, data, err := types.Append(nil, v)
	if err != nil {
		t.Errorf("sample: %v", err)
		return
	}
	again, err := types.Decode(name, data)
	if err != nil {
		t.Errorf("sample: %v", err)
		return
	}
	if _, second, err := types.Append(nil, again); err != nil || !bytes.Equal(data, second) {
		t.Errorf("sample of %s: %+v has come back as %+v (%v)", name, v, again, err)
	}
	if reflect.ValueOf(v).IsZero() {
		t.Errorf("sample of %s: it is zero, and shows nothing: set its fields", name)
	}
}

// write writes the file of a release, which must not exist.
func write(types *codec.Types, dir, release string, samples []any) error {
	if !releaseName.MatchString(release) {
		return fmt.Errorf("%s must name a release, such as v1.4.0, not %q", ReleaseVariable, release)
	}
	lines := make([]string, 0, len(samples))
	for _, v := range samples {
		name, data, err := types.Append(nil, v)
		if err != nil {
			return err
		}
		lines = append(lines, name+" "+base64.StdEncoding.EncodeToString(data)+"\n")
	}
	slices.Sort(lines)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, release+".golden"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: what a release has written does not change", err)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(slices.Compact(lines), ""))
	return errors.Join(err, f.Close())
}

// readAll reads the files and returns the names that are in them.
func readAll(t testing.TB, types *codec.Types, dir string) (map[string]bool, error) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.golden"))
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, len(data)+1)
		for n := 1; lines.Scan(); n++ {
			name, encoded, _ := strings.Cut(lines.Text(), " ")
			found[name] = true
			if err := read(types, name, encoded); err != nil {
				t.Errorf("%s:%d: %v", path, n, err)
			}
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return found, nil
}

// read says why a line of a file is no longer read as it should be.
func read(types *codec.Types, name, encoded string) error {
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return err
	}
	if _, err := types.AppendDecoded(nil, name, data); err != nil {
		return err
	}
	lost, err := types.Ignored(name, data)
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("%s: fields that nobody reads any more: %s: keep their names, or give the type a new name and an upcast, or list them in codec.Dropped", name, strings.Join(lost, ", "))
	}
	return err
}
