package entity

import (
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity/value"
)

// emptyObject is the leaf that stands for an object without members.
var emptyObject = value.JSON("{}")

// leaves is a section being edited: a copy that replaces the section when the whole edit has
// succeeded. The leaves that are set get the time now.
type leaves struct {
	section
	now    int64
	work   int          // how much work the patch has done, see spend
	arrays []*openArray // arrays that a JSON patch has open
}

const (
	// maxPatchWork bounds what a patch may do, because the entity does nothing else
	// meanwhile: an eighth of the bytes that move, four times those that are parsed into
	// leaves, and 32 times those of arrays that are decoded or encoded. It is about a
	// tenth of a second.
	maxPatchWork = 64 << 20
	parseWork    = 4
	decodeWork   = 32
	// leafBytes is roughly how many bytes move with a leaf.
	leafBytes = 64
)

// spend counts the work of a step, and refuses one beyond the limit.
func (l *leaves) spend(work int) error {
	if l.work += work; l.work > maxPatchWork {
		return fmt.Errorf("%w: the patch takes too many steps; send it in parts", ErrInvalid)
	}
	return nil
}

// makeRoom counts the work of setting a leaf, and refuses a leaf that makes the section too large,
// even if a later step would make it smaller.
func (l *leaves) makeRoom(path string, size int) error {
	if len(l.section) >= 2*MaxAttributes {
		return fmt.Errorf("%w: the patch makes more than %d attributes on its way; send it in parts", ErrInvalid, 2*MaxAttributes)
	}
	i, _ := l.find(path)
	return l.spend(len(path) + parseWork*size + (len(l.section)-i)*leafBytes/8)
}

// isObject reports whether there is an object at path.
func (l *leaves) isObject(path string) bool {
	if path == "" {
		return true
	}
	if i, ok := l.find(path); ok {
		return l.section[i].Value == emptyObject
	}
	from, to := l.below(path)
	return from < to
}

// clear removes the leaf at path and those below it.
func (l *leaves) clear(path string) {
	if path == "" {
		l.section = l.section[:0]
		return
	}
	if i, ok := l.find(path); ok {
		l.section = slices.Delete(l.section, i, i+1)
		return // a leaf has nothing below it
	}
	from, to := l.below(path)
	l.section = slices.Delete(l.section, from, to)
}

// set puts a leaf at path in place of whatever is there.
func (l *leaves) set(path string, v value.Value) {
	l.clear(path)
	if parent := parentOf(path); parent != "" {
		if i, ok := l.find(parent); ok {
			l.section = slices.Delete(l.section, i, i+1) // it was an object without members
		}
	}
	i, _ := l.find(path)
	l.section = slices.Insert(l.section, i, Attribute{Path: path, TS: l.now, Value: v})
}

// remove clears path and keeps the object that encloses it.
func (l *leaves) remove(path string) {
	l.clear(path)
	if parent := parentOf(path); parent != "" {
		if from, to := l.below(parent); from == to {
			l.set(parent, emptyObject)
		}
	}
}

func parentOf(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

// write puts the JSON value that p reads at path; objects become leaves of their
// own.
func (l *leaves) write(p *parser, path string) error {
	if p.peek() != '{' {
		if path == "" {
			return fmt.Errorf("%w: a section is a JSON object, not %s", ErrInvalid, p.found())
		}
		v, err := p.readValue()
		if err != nil {
			return err
		}
		if err := l.makeRoom(path, len(v.Text())); err != nil {
			return err
		}
		l.set(path, v)
		return nil
	}
	if err := l.makeRoom(path, 0); err != nil {
		return err
	}
	l.clear(path)
	if path != "" {
		l.set(path, emptyObject)
	}
	return p.members(path, func(path string) error { return l.write(p, path) })
}

// merge applies the merge patch that p reads to what is at path (RFC 7396).
// REQUIRES: the next byte is '{'.
func (l *leaves) merge(p *parser, path string) error {
	if err := l.makeRoom(path, 0); err != nil {
		return err
	}
	if !l.isObject(path) {
		l.set(path, emptyObject)
	} else if i, ok := l.find(path); ok {
		l.section[i].TS = l.now
	}
	return p.members(path, func(path string) error {
		switch {
		case p.peek() == '{':
			return l.merge(p, path)
		case p.literal("null"):
			if l.has(path) {
				l.remove(path)
				return l.spend(len(l.section) * leafBytes / 8)
			}
			return nil
		}
		v, perr := p.readValue()
		if perr != nil {
			return perr
		}
		if err := l.makeRoom(path, len(v.Text())); err != nil {
			return err
		}
		l.set(path, v)
		return nil
	})
}

// members reads the object at a path and calls value with the path of each member, to read the
// member's value. A member that occurs twice is refused, because it is not defined which one
// counts. REQUIRES: the next byte is '{'.
func (p *parser) members(path string, value func(path string) error) error {
	p.i++
	if p.peek() == '}' {
		p.i++
		return nil
	}
	seen := make(map[string]struct{})
	for {
		if p.peek() != '"' {
			return p.fail(CauseSyntax, "%s where a key is expected; keys are in double quotes", p.found())
		}
		name, err := p.readString()
		if err != nil {
			return err
		}
		if _, ok := seen[name]; ok {
			return p.fail(CauseDuplicate, "the key %q occurs twice in an object", brief(name))
		}
		seen[name] = struct{}{}
		p.peek()
		if err := p.expect(':', "':' after a key"); err != nil {
			return err
		}
		at := path + "/" + escapeMember(name)
		if err := checkPointer(at); err != nil {
			return err
		}
		if err := value(at); err != nil {
			return err
		}
		if p.peek() == '}' {
			p.i++
			return nil
		}
		if err := p.expect(',', "',' or '}' after a value"); err != nil {
			return err
		}
	}
}

// compare returns the leaves that were set or removed since before, ordered by path.
func (l *leaves) compare(before section, s Section) []AttributeEdit {
	var edits []AttributeEdit
	i, j := 0, 0
	for i < len(before) || j < len(l.section) {
		order := 0
		switch {
		case i == len(before):
			order = 1
		case j == len(l.section):
			order = -1
		default:
			order = strings.Compare(before[i].Path, l.section[j].Path)
		}
		if order < 0 {
			edits = append(edits, AttributeEdit{s, Attribute{Path: before[i].Path, TS: l.now}})
			i++
			continue
		}
		if order > 0 || before[i] != l.section[j] {
			edits = append(edits, AttributeEdit{s, l.section[j]})
		}
		if order == 0 {
			i++
		}
		j++
	}
	return edits
}
