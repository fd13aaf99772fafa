package lua

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	glua "github.com/yuin/gopher-lua"
)

// maxVersions is how many versions of a file are kept.
const maxVersions = 16

// Version is one version of a file.
type Version struct {
	File string    `json:"file"`
	Hash string    `json:"hash"` // the first 12 digits of the SHA-256 of its text, in base 16
	Time time.Time `json:"time"` // when it was read
	Who  string    `json:"who"`  // who has ordered the reload, empty for what was read when it was first needed
}

// version is a version with its code.
type version struct {
	Version
	chunk *glua.FunctionProto // never changed
}

func newVersion(file, source, who string) (*version, error) {
	chunk, err := compileSource(file, source)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(source))
	return &version{Version{file, hex.EncodeToString(sum[:6]), time.Now(), who}, chunk}, nil
}

// Versions returns the known versions of a file, the one in force first, at most 16. A file that
// was not needed yet has none.
func (rt *Runtime) Versions(file string) []Version {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	known := rt.files[file]
	list := make([]Version, len(known))
	for i, v := range known {
		list[i] = v.Version
	}
	return list
}

// loadedFiles returns the names of the files that were needed, sorted.
func (rt *Runtime) loadedFiles() []string {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	files := make([]string, 0, len(rt.files))
	for file := range rt.files {
		files = append(files, file)
	}
	slices.Sort(files)
	return files
}

// putInForce puts a version in force.
func (rt *Runtime) putInForce(v *version) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(rt.files[v.File]), func(other *version) bool { return other.Hash == v.Hash })
	list = slices.Insert(list, 0, v)
	rt.files[v.File] = list[:min(len(list), maxVersions)]
}

// versionOf returns the version of a file whose hash begins so.
func (rt *Runtime) versionOf(file, hash string) (*version, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var found *version
	for _, v := range rt.files[file] {
		if !strings.HasPrefix(v.Hash, hash) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("reload %s: several versions begin with %q", file, hash)
		}
		found = v
	}
	if found == nil || hash == "" {
		return nil, fmt.Errorf("reload %s: no known version is %.20q; versions lists them", file, hash)
	}
	return found, nil
}
