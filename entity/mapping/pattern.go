package mapping

import (
	"strings"
	"unicode/utf8"
)

// matches reports whether an id fits a pattern of literal characters, * for any
// run and ? for one. It goes back only to the last *, so that it ends after at
// most len(pattern) * len(id) steps.
func matches(pattern, id string) bool {
	p, i, star, mark := 0, 0, -1, 0
	for i < len(id) {
		if p < len(pattern) {
			switch pattern[p] {
			case '*':
				star, mark = p, i
				p++
				continue
			case '?':
				_, size := utf8.DecodeRuneInString(id[i:])
				p, i = p+1, i+size
				continue
			case id[i]:
				p, i = p+1, i+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		_, size := utf8.DecodeRuneInString(id[mark:])
		mark += size
		p, i = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// literal returns the longest part of a pattern without * and ?.
func literal(pattern string) string {
	longest := ""
	for part := range strings.FieldsFuncSeq(pattern, func(r rune) bool { return r == '*' || r == '?' }) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

// patterns finds the groups whose pattern an id fits, by the literal beginning
// of the pattern: what has another beginning is not looked at.
type patterns struct {
	byPrefix map[string][]*group
	lengths  map[int]int // of the beginnings, and how many there are
}

func prefix(pattern string) string {
	if i := strings.IndexAny(pattern, "*?"); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

func (p *patterns) add(g *group) {
	if p.byPrefix == nil {
		p.byPrefix, p.lengths = make(map[string][]*group), make(map[int]int)
	}
	begin := prefix(g.spec.Like)
	p.byPrefix[begin] = append(p.byPrefix[begin], g)
	p.lengths[len(begin)]++
}

func (p *patterns) remove(g *group) {
	begin := prefix(g.spec.Like)
	list := p.byPrefix[begin]
	for i := range list {
		if list[i] == g {
			p.byPrefix[begin] = append(list[:i:i], list[i+1:]...)
			break
		}
	}
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
			if matches(g.spec.Like, id) {
				f(g)
			}
		}
	}
}
