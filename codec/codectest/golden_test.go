package codectest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/codec/codectest"
)

type added struct {
	SKU string
	N   int
}

type removed struct{ SKU string }

// recorder is a testing.TB that keeps what is reported.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// golden runs Golden with types and returns what it reports.
func golden(t *testing.T, dir string, types *codec.Types, samples ...any) string {
	t.Helper()
	r := &recorder{TB: t}
	codectest.Golden(r, types, dir, samples...)
	return strings.Join(r.errors, "\n")
}

func TestGoldenFindsWhatIsNoLongerRead(t *testing.T) {
	type renamed struct {
		Article string
		N       int
	}
	dir := filepath.Join(t.TempDir(), "golden")
	first := codec.NewTypes(codec.Of[added]("added"), codec.Of[removed]("removed"))
	if got := golden(t, dir, first, added{"a", 1}, removed{"a"}); !strings.Contains(got, "added is in no file of ") || !strings.Contains(got, "removed is in no file of ") {
		t.Errorf("without files: %s", got)
	}
	t.Setenv(codectest.ReleaseVariable, "v1.0.0")
	if got := golden(t, dir, first, added{"a", 1}, removed{"a"}); got != "" {
		t.Errorf("at the release: %s", got)
	}
	if got := golden(t, dir, first, added{"b", 1}); !strings.Contains(got, "v1.0.0.golden: file exists: what a release has written does not change") {
		t.Errorf("written again: %s", got)
	}
	t.Setenv(codectest.ReleaseVariable, "../x")
	if got := golden(t, dir, first, added{"b", 1}); !strings.Contains(got, `must name a release, such as v1.4.0, not "../x"`) {
		t.Errorf("bad release: %s", got)
	}
	t.Setenv(codectest.ReleaseVariable, "")
	if got := golden(t, dir, first, added{"a", 1}, removed{"a"}); got != "" {
		t.Errorf("after the release: %s", got)
	}
	upcast := codec.From("added", func(v added) (renamed, error) { return renamed{v.SKU, v.N}, nil })
	for name, c := range map[string]struct {
		types *codec.Types
		want  string
	}{
		"a type is gone":      {codec.NewTypes(codec.Of[added]("added")), `codec: decode "removed": name is not registered`},
		"a field is renamed":  {codec.NewTypes(codec.Of[renamed]("added"), codec.Of[removed]("removed")), "added: fields that nobody reads any more: SKU"},
		"another type":        {codec.NewTypes(codec.Of[int]("added"), codec.Of[removed]("removed")), `codec: decode "added": cbor: cannot unmarshal`},
		"a field is dropped":  {codec.NewTypes(codec.Of[renamed]("added", codec.Dropped("SKU")), codec.Of[removed]("removed")), ""},
		"a new name":          {codec.NewTypes(codec.Of[added]("added.v2", codec.Was("added")), codec.Of[removed]("removed")), "added.v2 is in no file of "},
		"an upcast":           {codec.NewTypes(codec.Of[renamed]("added.v2", upcast), codec.Of[removed]("removed")), "added.v2 is in no file of "},
		"a type that is new":  {codec.NewTypes(codec.Of[added]("added"), codec.Of[removed]("removed"), codec.Of[int]("n")), "n is in no file of "},
		"nothing has changed": {first, ""},
	} {
		got := golden(t, dir, c.types)
		if got != "" && c.want == "" || !strings.Contains(got, c.want) || strings.Count(got, "\n") > 0 {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestGoldenChecksTheSamples(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	types := codec.NewTypes(codec.Of[added]("added"))
	if err := os.WriteFile(filepath.Join(dir, "v1.golden"), []byte("added oWFOAQ==\nadded !\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := golden(t, dir, types, removed{"x"}, added{})
	for _, want := range []string{
		"sample: codec: encode: type is not registered: codectest_test.removed",
		"sample of added: it is zero",
		"v1.golden:2: illegal base64 data",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	if strings.Count(got, "\n") != 2 {
		t.Errorf("more than three: %s", got)
	}
}
