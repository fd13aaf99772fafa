package filter

import (
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pattern is what like, prefix, suffix and contains look for: pieces of text in
// their order, the first at the beginning if fromStart, the last at the end if
// toEnd.
type pattern struct {
	pieces           []piece
	fromStart, toEnd bool
	exact            bool // the only piece is the whole text
	fold             bool // case is passed over
	wildcards        bool // a piece has an anyRune
}

// piece is a run of characters without %. It has them as text where it can be
// compared as such.
type piece struct {
	text  string
	runes []rune // anyRune for _
	// fall says, for each number of runes that match, how many still do when the next
	// one does not: a text is read once however it repeats itself (Knuth, Morris and
	// Pratt). nil with an anyRune.
	fall []int
	wild *wild // with one, nil otherwise
}

// wild is a piece with an anyRune, for a search that reads a text once: of the numbers of runes up
// to which the last runes read match the piece there is a bit each (Baeza-Yates and Gonnet). It takes
// memory in proportion to the piece.
type wild struct {
	any    []uint64          // bits of the places of anyRune
	often  map[rune][]uint64 // bits of the places of a rune that there are many of, and of anyRune
	seldom map[rune][]int    // places of any other rune
}

const anyRune rune = -1

// newPattern compiles the right side of a text operator.
func newPattern(op textOp, s string) *pattern {
	p := &pattern{fold: op.fold, fromStart: op.word == "prefix", toEnd: op.word == "suffix"}
	runs := [][]rune{[]rune(s)}
	if op.word == "like" {
		runs, _ = likePattern(s)
		p.fromStart, p.toEnd = true, true
	}
	for i, run := range runs {
		p.add(run, i == 0, i == len(runs)-1)
	}
	p.exact = p.fromStart && p.toEnd && len(runs) == 1
	return p
}

// add appends a run. An empty one at an end says that the end is open.
func (p *pattern) add(run []rune, first, last bool) {
	if len(run) == 0 {
		if first && !last {
			p.fromStart = false
		}
		if last && !first {
			p.toEnd = false
		}
		if !first || !last {
			return
		}
	}
	x := piece{runes: run}
	for i, r := range run {
		switch {
		case r == anyRune:
			p.wildcards = true
		case p.fold:
			run[i] = foldRune(r)
		}
	}
	if !p.wildcards && !p.fold {
		x.text = string(run)
	}
	if !slices.Contains(run, anyRune) {
		x.fall = fallOf(run)
	} else {
		x.wild = wildOf(run)
	}
	p.pieces = append(p.pieces, x)
}

// fallOf returns piece.fall of runes.
func fallOf(runes []rune) []int {
	fall := make([]int, len(runes)+1)
	for i, n := 1, 0; i < len(runes); i++ {
		for n > 0 && runes[i] != runes[n] {
			n = fall[n]
		}
		if runes[i] == runes[n] {
			n++
		}
		fall[i+1] = n
	}
	return fall
}

// wildOf returns piece.wild of runes.
func wildOf(runes []rune) *wild {
	words := len(runes)/64 + 1
	w := &wild{any: make([]uint64, words), often: map[rune][]uint64{}, seldom: map[rune][]int{}}
	for i, r := range runes {
		if r == anyRune {
			w.any[i/64] |= 1 << (i % 64)
		} else {
			w.seldom[r] = append(w.seldom[r], i)
		}
	}
	for r, places := range w.seldom {
		if len(places) <= words {
			continue
		}
		bits := slices.Clone(w.any)
		for _, i := range places {
			bits[i/64] |= 1 << (i % 64)
		}
		w.often[r] = bits
		delete(w.seldom, r)
	}
	return w
}

// Pattern is the right side of like: % stands for any characters, _ for one, and \ escapes these
// three. [ParsePattern] makes it. It is immutable and safe for concurrent use.
type Pattern struct {
	pattern  *pattern
	literals []string
}

// errBackslash says what is wrong with a pattern.
var errBackslash = errors.New(`a backslash in a pattern is followed by %, _ or another backslash, and is itself written \\ in a string`)

// ParsePattern reads the right side of like.
func ParsePattern(text string) (*Pattern, error) {
	runs, ok := likePattern(text)
	if !ok {
		return nil, errBackslash
	}
	p := &Pattern{pattern: newPattern(textOps["like"], text)}
	for _, run := range runs {
		p.literals = append(p.literals, "")
		for _, r := range run {
			if r == anyRune {
				p.literals = append(p.literals, "")
			} else {
				p.literals[len(p.literals)-1] += string(r)
			}
		}
	}
	return p, nil
}

// Match reports whether the whole text matches the pattern.
func (p *Pattern) Match(text string) bool { return p.pattern.match(text) }

// Literals returns the texts before, between and after the wildcards, at least one.
func (p *Pattern) Literals() []string { return p.literals }

// Bytes returns how much memory the pattern takes, in bytes: an estimate that is off by at most a
// factor of two.
func (p *Pattern) Bytes() int {
	size := patternSize + p.pattern.size()
	for _, text := range p.literals {
		size += literalTextSize + len(text)
	}
	return size
}

// likePattern cuts the pattern of like at each % and reports whether its
// backslashes stand before what they may.
func likePattern(s string) (runs [][]rune, ok bool) {
	runs = [][]rune{nil}
	add := func(r rune) { runs[len(runs)-1] = append(runs[len(runs)-1], r) }
	escaped := false
	for _, r := range s {
		switch {
		case escaped:
			if r != '%' && r != '_' && r != '\\' {
				return nil, false
			}
			add(r)
			escaped = false
		case r == '\\':
			escaped = true
		case r == '_':
			add(anyRune)
		case r != '%':
			add(r)
		case len(runs) == 1 || len(runs[len(runs)-1]) > 0: // %% is %
			runs = append(runs, nil)
		}
	}
	return runs, !escaped
}

// match reports whether the whole of s is as the pattern says.
func (p *pattern) match(s string) bool {
	if p.exact {
		rest, ok := p.pieces[0].after(s, p)
		return ok && rest == ""
	}
	pieces := p.pieces
	if p.fromStart {
		rest, ok := pieces[0].after(s, p)
		if !ok {
			return false
		}
		s, pieces = rest, pieces[1:]
	}
	if p.toEnd {
		last := pieces[len(pieces)-1]
		rest, ok := last.before(s, p)
		if !ok {
			return false
		}
		s, pieces = rest, pieces[:len(pieces)-1]
	}
	for _, x := range pieces { // the first place for each is the best one
		rest, ok := x.find(s, p)
		if !ok {
			return false
		}
		s = rest
	}
	return true
}

// after returns what follows the piece at the beginning of s.
func (x piece) after(s string, p *pattern) (rest string, ok bool) {
	if !p.wildcards && !p.fold {
		return strings.CutPrefix(s, x.text)
	}
	for _, want := range x.runes {
		r, size := utf8.DecodeRuneInString(s)
		if size == 0 || !p.same(r, want) {
			return s, false
		}
		s = s[size:]
	}
	return s, true
}

// before returns what precedes the piece at the end of s.
func (x piece) before(s string, p *pattern) (rest string, ok bool) {
	if !p.wildcards && !p.fold {
		return strings.CutSuffix(s, x.text)
	}
	for _, want := range slices.Backward(x.runes) {
		r, size := utf8.DecodeLastRuneInString(s)
		if size == 0 || !p.same(r, want) {
			return s, false
		}
		s = s[:len(s)-size]
	}
	return s, true
}

// find returns what follows the first place of the piece in s.
func (x piece) find(s string, p *pattern) (rest string, ok bool) {
	if !p.wildcards && !p.fold {
		_, rest, ok = strings.Cut(s, x.text)
		return rest, ok
	}
	if x.fall != nil {
		return x.search(s, p)
	}
	return x.searchWild(s, p)
}

// usualWords is how many words of bits a search has without an allocation: a piece of that many times
// 64 runes.
const usualWords = 8

// searchWild is find for a piece with an anyRune.
func (x piece) searchWild(s string, p *pattern) (rest string, ok bool) {
	var usual [2][usualWords]uint64
	now, next := usual[0][:], usual[1][:]
	if n := len(x.wild.any); n <= usualWords {
		now, next = now[:n], next[:n]
	} else {
		now, next = make([]uint64, n), make([]uint64, n)
	}
	last := len(x.runes) - 1
	for s != "" {
		r, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		if p.fold {
			r = foldRune(r)
		}
		carry := uint64(1) // the piece may begin here
		for i, bits := range now {
			now[i], carry = bits<<1|carry, bits>>63
		}
		if often := x.wild.often[r]; often != nil {
			for i := range now {
				next[i] = now[i] & often[i]
			}
		} else {
			for i := range now {
				next[i] = now[i] & x.wild.any[i]
			}
			for _, at := range x.wild.seldom[r] {
				next[at/64] |= now[at/64] & (1 << (at % 64))
			}
		}
		if next[last/64]&(1<<(last%64)) != 0 {
			return s, true
		}
		now, next = next, now
	}
	return s, false
}

// search is find for a piece without an anyRune.
func (x piece) search(s string, p *pattern) (rest string, ok bool) {
	n := 0 // runes that match
	for n < len(x.runes) {
		r, size := utf8.DecodeRuneInString(s)
		if size == 0 {
			return s, false
		}
		s = s[size:]
		if p.fold {
			r = foldRune(r)
		}
		for n > 0 && r != x.runes[n] {
			n = x.fall[n]
		}
		if r == x.runes[n] {
			n++
		}
	}
	return s, true
}

func (p *pattern) same(r, want rune) bool {
	return want == anyRune || r == want || p.fold && foldRune(r) == want
}

// foldRune returns the same rune for all cases of a letter, by Unicode's simple
// folding: K, k and the Kelvin sign are one, ß and SS are not.
func foldRune(r rune) rune {
	if r < utf8.RuneSelf && r != 'k' && r != 'K' && r != 's' && r != 'S' {
		if 'a' <= r && r <= 'z' {
			r -= 'a' - 'A'
		}
		return r
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}
