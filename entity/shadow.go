package entity

import (
	"strconv"
	"strings"

	"github.com/greenroom-go/greenroom/entity/value"
)

// AppendAttributes appends leaves as a JSON document. They must be of one section, ordered by path.
func AppendAttributes(dst []byte, leaves []Attribute) []byte {
	return appendLeaves(dst, leaves, 0, appendAttribute)
}

// AppendTimes appends a document of the same shape that has, in place of each leaf, the time at
// which it was set: {"timestamp":1451649600}, in seconds since the epoch, as the metadata of an AWS
// shadow document does.
//
// https://docs.aws.amazon.com/iot/latest/developerguide/device-shadow-document.html
func AppendTimes(dst []byte, leaves []Attribute) []byte {
	return appendLeaves(dst, leaves, 0, func(dst []byte, a *Attribute) []byte {
		dst = append(dst, `{"timestamp":`...)
		return append(strconv.AppendInt(dst, a.TS/1000, 10), '}')
	})
}

func appendAttribute(dst []byte, a *Attribute) []byte { return a.Value.AppendJSON(dst) }

// appendLeaves appends an object of the leaves, whose paths have the first cut bytes in common.
func appendLeaves(dst []byte, leaves []Attribute, cut int, leaf func([]byte, *Attribute) []byte) []byte {
	dst = append(dst, '{')
	for i := 0; i < len(leaves); {
		if i > 0 {
			dst = append(dst, ',')
		}
		path := leaves[i].Path[cut+1:]
		name, _, deeper := strings.Cut(path, "/")
		dst = append(value.AppendQuoted(dst, unescapeMember(name)), ':')
		if !deeper {
			dst = leaf(dst, &leaves[i])
			i++
			continue
		}
		prefix := leaves[i].Path[:cut+1+len(name)+1]
		n := i
		for n < len(leaves) && strings.HasPrefix(leaves[n].Path, prefix) {
			n++
		}
		dst = appendLeaves(dst, leaves[i:n], len(prefix)-1, leaf)
		i = n
	}
	return append(dst, '}')
}

// Delta returns the leaves of desired that are missing in reported or have another value there:
// what a device has yet to apply. Both must be ordered by path. Numbers are compared exactly by
// value, arrays as a whole. Leaves that only reported has are not a difference, as in the shadow
// documents of AWS.
func Delta(desired, reported []Attribute) []Attribute {
	var delta []Attribute
	have := section(reported)
	for _, d := range desired {
		if i, ok := have.find(d.Path); ok && sameValue(d.Value, have[i].Value) {
			continue
		}
		if d.Value == emptyObject && have.has(d.Path) {
			if _, leaf := have.find(d.Path); !leaf {
				continue // any object satisfies an empty one
			}
		}
		delta = append(delta, d)
	}
	return delta
}

func sameValue(a, b value.Value) bool {
	return value.Compare(a, b) == value.Equal || a.Kind() == value.KindJSON && b.Kind() == value.KindJSON && sameJSON([]byte(a.Text()), []byte(b.Text()))
}

// Section returns the leaves of a section, ordered by path.
func (s *Snapshot) Section(sec Section) []Attribute {
	var list []Attribute
	for i := range s.Attributes {
		if s.Attributes[i].Section == sec {
			list = append(list, s.Attributes[i].Attribute)
		}
	}
	return list
}
