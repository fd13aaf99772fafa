package mapping

import (
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
)

// setLike makes the group that of a pattern, if it can match an id.
func (g *Group) setLike(pattern string) (err error) {
	if pattern == "" || len(pattern) > entity.MaxIDBytes {
		return fmt.Errorf("pattern: %w: must have 1 to %d bytes, not %d", entity.ErrInvalid, entity.MaxIDBytes, len(pattern))
	}
	if strings.ContainsAny(pattern, "*?") {
		return fmt.Errorf("pattern %q: %w: must have %% for any characters and _ for one, not * and ?", pattern, entity.ErrInvalid)
	}
	g.Like = pattern
	if g.like, err = filter.ParsePattern(pattern); err != nil {
		return fmt.Errorf("pattern %q: %w: %w", pattern, entity.ErrInvalid, err)
	}
	if entity.CheckID(strings.Join(g.like.Literals(), "x")) != nil {
		return fmt.Errorf("pattern %q: %w: no id looks like this", pattern, entity.ErrInvalid)
	}
	return nil
}

// fromStars turns a pattern of * and ? into one of % and _. The stored mappings of older
// versions have such patterns.
var fromStars = strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`, "*", "%", "?", "_")

// patterns finds the groups whose pattern an id fits, by the literal beginning
// of the pattern: what has another beginning is not looked at.
type patterns struct {
	byPrefix map[string][]*group
	lengths  map[int]int // of the beginnings, and how many there are
}

// prefix is what all ids of the group begin with.
func (g *Group) prefix() string { return g.like.Literals()[0] }

func (p *patterns) add(g *group) {
	if p.byPrefix == nil {
		p.byPrefix, p.lengths = make(map[string][]*group), make(map[int]int)
	}
	begin := g.spec.prefix()
	p.byPrefix[begin] = append(p.byPrefix[begin], g)
	p.lengths[len(begin)]++
}

func (p *patterns) remove(g *group) {
	begin := g.spec.prefix()
	p.byPrefix[begin] = slices.DeleteFunc(p.byPrefix[begin], func(o *group) bool { return o == g })
	if len(p.byPrefix[begin]) == 0 {
		delete(p.byPrefix, begin)
	}
	if p.lengths[len(begin)]--; p.lengths[len(begin)] == 0 {
		delete(p.lengths, len(begin))
	}
}

// each calls f with the groups that an id belongs to.
func (p *patterns) each(id string, f func(*group)) {
	for n := range p.lengths {
		if n > len(id) {
			continue
		}
		for _, g := range p.byPrefix[id[:n]] {
			if g.spec.like.Match(id) {
				f(g)
			}
		}
	}
}
