package filter

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pattern is a pattern of like, prefix, suffix or contains: pieces of text in order, the first at
// the beginning if fromStart, the last at the end if toEnd.
type pattern struct {
	pieces           []piece
	fromStart, toEnd bool
	exact            bool // the only piece is the whole text
	fold             bool // case is ignored
	wildcards        bool // a piece has an anyRune
}

// piece is a run of characters without %: as text if it can be compared as such, and otherwise as
// runes. There may be a piece for every two characters of a pattern.
type piece struct {
	text  string
	runes []rune  // anyRune for _
	long  *seeker // of more than shortPiece runes, nil otherwise
}

// shortPiece is up to how many runes a piece is simply compared at each place of a text.
const shortPiece = 8

// seeker has the tables by which a search for a long piece reads the text only once.
type seeker struct {
	// fall says, for each number of runes that match, how many still do when the next
	// one does not, however the piece repeats itself (Knuth, Morris and Pratt). nil with
	// an anyRune.
	fall []int32
	// wild is for a piece with an anyRune.
	wild wild
}

// wild searches for a piece with an anyRune: bit n is set if the last n+1 runes read match the
// beginning of the piece (Baeza-Yates and Gonnet). It takes memory in proportion to the piece.
type wild struct {
	any    []uint64 // bits of the places of anyRune
	often  []rune   // in order; of each one bits has as many words as any has: its places and those of anyRune
	bits   []uint64
	seldom []place // of all other runes, in order
}

// place is where a rune is in a piece.
type place struct {
	r  rune
	at int32
}

func comparePlaces(a, b place) int { return cmp.Or(cmp.Compare(a.r, b.r), cmp.Compare(a.at, b.at)) }

const anyRune rune = -1

// newPattern compiles the right side of a text operator.
func newPattern(op textOp, s string) *pattern {
	p := &pattern{fold: op.fold, fromStart: op.word == "prefix", toEnd: op.word == "suffix"}
	runs := [][]rune{[]rune(s)}
	if op.word == "like" {
		runs, _ = likePattern(s)
		p.fromStart, p.toEnd = true, true
	}
	runs = p.open(runs)
	total := 0
	for _, run := range runs {
		total += len(run)
		p.wildcards = p.wildcards || slices.Contains(run, anyRune)
	}
	p.exact = p.fromStart && p.toEnd && len(runs) == 1
	p.pieces = make([]piece, 0, len(runs))
	all := make([]rune, 0, total)
	for _, run := range runs {
		if !p.wildcards && !p.fold {
			p.pieces = append(p.pieces, piece{text: string(run)})
			continue
		}
		from := len(all)
		for _, r := range run {
			if p.fold && r != anyRune {
				r = foldRune(r)
			}
			all = append(all, r)
		}
		p.pieces = append(p.pieces, newPiece(slices.Clip(all[from:])))
	}
	return p
}

// open returns the runs without empty ones at the ends, which say that the ends are open.
func (p *pattern) open(runs [][]rune) [][]rune {
	if len(runs) > 1 && len(runs[0]) == 0 {
		p.fromStart, runs = false, runs[1:]
		if len(runs) == 1 && len(runs[0]) == 0 {
			p.toEnd = false
			return nil
		}
	}
	if last := len(runs) - 1; last > 0 && len(runs[last]) == 0 {
		p.toEnd, runs = false, runs[:last]
	}
	return runs
}

// newPiece returns the piece of some runes.
func newPiece(runes []rune) piece {
	x := piece{runes: runes}
	switch {
	case len(runes) <= shortPiece:
	case slices.Contains(runes, anyRune):
		x.long = &seeker{wild: wildOf(runes)}
	default:
		x.long = &seeker{fall: fallOf(runes)}
	}
	return x
}

// fallOf returns seeker.fall of runes.
func fallOf(runes []rune) []int32 {
	fall := make([]int32, len(runes)+1)
	for i, n := 1, int32(0); i < len(runes); i++ {
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

// wildOf returns seeker.wild of runes.
func wildOf(runes []rune) (w wild) {
	words := len(runes)/64 + 1
	w.any = make([]uint64, words)
	places := make([]place, 0, len(runes))
	for i, r := range runes {
		if r == anyRune {
			w.any[i/64] |= 1 << (i % 64)
		} else {
			places = append(places, place{r, int32(i)}) //nolint:gosec // of a text of some kilobytes
		}
	}
	slices.SortFunc(places, comparePlaces)
	for len(places) > 0 {
		n := 1
		for n < len(places) && places[n].r == places[0].r {
			n++
		}
		if n <= words {
			w.seldom = append(w.seldom, places[:n]...)
		} else {
			w.often = append(w.often, places[0].r)
			w.bits = append(w.bits, w.any...)
			bits := w.bits[len(w.bits)-words:]
			for _, p := range places[:n] {
				bits[p.at/64] |= 1 << (p.at % 64)
			}
		}
		places = places[n:]
	}
	return w
}

// match sets next to those bits of now at which the rune is in the piece.
func (w *wild) match(r rune, now, next []uint64) {
	if i, ok := slices.BinarySearch(w.often, r); ok {
		for j, bits := range w.bits[i*len(now) : (i+1)*len(now)] {
			next[j] = now[j] & bits
		}
		return
	}
	for i := range now {
		next[i] = now[i] & w.any[i]
	}
	first, _ := slices.BinarySearchFunc(w.seldom, place{r, 0}, comparePlaces)
	for _, p := range w.seldom[first:] {
		if p.r != r {
			return
		}
		next[p.at/64] |= now[p.at/64] & (1 << (p.at % 64))
	}
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

// match reports whether the whole of s matches the pattern.
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

// all returns the runes of the piece.
func (x piece) all() []rune {
	if x.runes == nil {
		return []rune(x.text)
	}
	return x.runes
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
	switch {
	case x.long == nil:
		return x.searchShort(s, p)
	case x.long.fall != nil:
		return x.search(s, p)
	}
	return x.searchWild(s, p)
}

// searchShort is find for a piece of few runes.
func (x piece) searchShort(s string, p *pattern) (rest string, ok bool) {
	for {
		if rest, ok := x.after(s, p); ok {
			return rest, true
		}
		_, size := utf8.DecodeRuneInString(s)
		if size == 0 {
			return s, false
		}
		s = s[size:]
	}
}

// usualWords is how many words of bits a search has without an allocation: a piece of that many times
// 64 runes.
const usualWords = 8

// searchWild is find for a long piece with an anyRune.
func (x piece) searchWild(s string, p *pattern) (rest string, ok bool) {
	var usual [2][usualWords]uint64
	now, next := usual[0][:], usual[1][:]
	if n := len(x.long.wild.any); n <= usualWords {
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
		x.long.wild.match(r, now, next)
		if next[last/64]&(1<<(last%64)) != 0 {
			return s, true
		}
		now, next = next, now
	}
	return s, false
}

// search is find for a long piece without an anyRune.
func (x piece) search(s string, p *pattern) (rest string, ok bool) {
	n := int32(0) // runes that match
	for int(n) < len(x.runes) {
		r, size := utf8.DecodeRuneInString(s)
		if size == 0 {
			return s, false
		}
		s = s[size:]
		if p.fold {
			r = foldRune(r)
		}
		for n > 0 && r != x.runes[n] {
			n = x.long.fall[n]
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
