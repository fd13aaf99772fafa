package filter

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity/value"
)

// SuggestionKind is the kind of a suggestion, for its icon.
type SuggestionKind string

// The kinds of suggestions.
const (
	SuggestWord     SuggestionKind = "word"     // a word of the language
	SuggestOperator SuggestionKind = "operator" // a sign such as <= or a parenthesis
	SuggestPath     SuggestionKind = "path"     // a key, a leaf of a document, id, type …
	SuggestRelation SuggestionKind = "relation" // a type of relations
	SuggestID       SuggestionKind = "id"       // the id of an entity
	SuggestValue    SuggestionKind = "value"    // a literal
	SuggestFunction SuggestionKind = "function" // a function with its parenthesis
)

// MaxSuggestions bounds the items of a Completion.
const MaxSuggestions = 50

// Vocabulary is what [Complete] knows besides the language. All of it may be empty.
type Vocabulary struct {
	// Paths are keys and leaves of documents; their slots are ignored.
	Paths []Path
	// Types and Relations are the ids of types and the types of relations.
	Types, Relations []string
	// IDs returns some ids of entities that begin with prefix. It may be nil.
	IDs func(prefix string) []string
	// Values returns some known strings at a path that begin with prefix. It may be nil.
	Values func(p Path, prefix string) []string
}

// Suggestion is a text that may be put at the cursor.
type Suggestion struct {
	Text string // the text to insert
	Kind SuggestionKind
}

// Completion says what may be put at a place in a filter: one of the items, replacing the text
// between the byte offsets From and To.
type Completion struct {
	From, To int
	Items    []Suggestion
}

// offer is something that the grammar allows to follow a text.
type offer struct {
	kind SuggestionKind
	text string  // itself
	left operand // SuggestValue: what it would be compared with
	part bool    // SuggestPath: in a computation, where strings and instants are not allowed
}

func (p *parser) offer(o offer) {
	if p.offers != nil && p.tok.kind == tokenEnd && p.err == nil {
		*p.offers = append(*p.offers, o)
	}
}

// offerCondition offers what a condition may begin with.
func (p *parser) offerCondition() {
	if p.offers == nil || p.tok.kind != tokenEnd {
		return
	}
	p.offer(offer{kind: SuggestWord, text: "not"})
	p.offer(offer{kind: SuggestOperator, text: "("})
	p.offer(offer{kind: SuggestWord, text: "exists"})
	if p.resolve == nil {
		p.offer(offer{kind: SuggestWord, text: "related"})
	}
	p.offerPath()
	p.offerFunctions()
	if p.resolve == nil {
		p.offer(offer{kind: SuggestWord, text: "age("})
		p.offer(offer{kind: SuggestWord, text: "ts("})
	}
}

// offerPart offers what may be a part of a computation.
func (p *parser) offerPart() {
	p.offer(offer{kind: SuggestPath, part: true})
	p.offerFunctions()
}

// offerRight offers what may be on the right of an operator.
func (p *parser) offerRight(op *operator, left operand) {
	switch k := left.valueKind(); {
	case k == value.KindTime && op.bound == bindsSum:
		p.offer(offer{kind: SuggestValue, text: "5m"})
	case couldBe(k, value.KindFloat), k == value.KindString && op.sign == "+":
		p.offerPart()
	}
}

func (p *parser) offerFunctions() {
	for _, name := range functionNames {
		p.offer(offer{kind: SuggestFunction, text: name + "("})
	}
	for _, name := range aggregates {
		if p.resolve != nil {
			p.offer(offer{kind: SuggestFunction, text: name + "("})
		}
	}
}

// offerShift offers what may follow now.
func (p *parser) offerShift() {
	p.offer(offer{kind: SuggestOperator, text: "-"})
	p.offer(offer{kind: SuggestOperator, text: "+"})
}

// offerOperators offers what can be said of an operand.
func (p *parser) offerOperators(left operand) {
	if p.offers == nil || left.isCondition() {
		return
	}
	for _, sign := range []string{"=", "!=", "<", "<=", ">", ">="} {
		if left.valueKind() != value.KindBool || !comparisons[sign].inOrder() {
			p.offer(offer{kind: SuggestOperator, text: sign})
		}
	}
	p.offerWords(left)
	p.offer(offer{kind: SuggestWord, text: "not"})
	if left.kind == ofPath && left.path.Root == RootType {
		p.offer(offer{kind: SuggestWord, text: "is"})
	}
}

// offerWords offers the operators that may have a not before them.
func (p *parser) offerWords(left operand) {
	p.offer(offer{kind: SuggestWord, text: "in"})
	p.offer(offer{kind: SuggestWord, text: "between"})
	if k := left.valueKind(); k != 0 && k != value.KindString || left.kind == ofLiteral {
		return
	}
	for _, w := range words {
		if _, ok := textOps[w]; ok {
			p.offer(offer{kind: SuggestWord, text: w})
		}
	}
}

// offerValue offers what an operand can be compared with.
func (p *parser) offerValue(left operand) {
	p.offerLiteral(left)
	if k := left.valueKind(); k == value.KindTime {
		p.offer(offer{kind: SuggestWord, text: "now"})
		p.offer(offer{kind: SuggestValue, text: "now - 1h"})
	} else if k == 0 {
		p.offerPath()
	}
}

// offerPath offers what has a name. In a mapping it has no strings and instants.
func (p *parser) offerPath() { p.offer(offer{kind: SuggestPath, part: p.resolve != nil}) }

// offerLiteral offers what may be in a list of values.
func (p *parser) offerLiteral(left operand) {
	p.offerString(left)
	if k := left.valueKind(); k == value.KindDuration {
		for _, text := range []string{"1m", "5m", "1h", "1d"} {
			p.offer(offer{kind: SuggestValue, text: text})
		}
	} else if k == 0 {
		p.offer(offer{kind: SuggestWord, text: "true"})
		p.offer(offer{kind: SuggestWord, text: "false"})
	}
}

// offerString offers the strings that are known at an operand.
func (p *parser) offerString(left operand) { p.offer(offer{kind: SuggestValue, left: left}) }

// Complete returns what may be put at a cursor in a text that need not be a whole filter: words and
// operators that the grammar allows there, and names and values from the vocabulary. offset is the
// cursor's position in bytes. The word that the cursor touches is taken as the beginning of the
// completion. If the text before it is invalid, there are no items.
func Complete(text string, offset int, v Vocabulary) Completion {
	return CompleteBy(text, offset, v, func(r *Reader) { r.filter() })
}

// CompleteBy is Complete for a text of another kind. read parses the text before the completion;
// the items are what it accepts at the end of that text.
func CompleteBy(text string, offset int, v Vocabulary, read func(r *Reader)) Completion {
	offset = min(max(offset, 0), len(text))
	for offset > 0 && offset < len(text) && !utf8.RuneStart(text[offset]) {
		offset--
	}
	c := Completion{From: partial(text[:offset]), To: offset}
	c.To += tail(text, c.From, offset)
	after := lexer{text: text[:c.From] + "x"}
	last := 0
	for t := after.next(); t.kind != tokenEnd; t = after.next() {
		last = t.from
	}
	if after.err != nil || last != c.From {
		return c // such as power-, to which no name can be added, and and` without a space
	}
	var offers []offer
	r := NewReader(text[:c.From])
	r.offers = &offers
	read(r)
	s := suggester{Vocabulary: v, typed: text[c.From:offset]}
	for _, o := range offers {
		s.add(o)
	}
	c.Items = s.items[:min(len(s.items), MaxSuggestions)]
	return c
}

// partial returns where the word, path or literal begins that ends with the
// text, the length of the text if there is none.
func partial(text string) int {
	l := lexer{text: text}
	for {
		t := l.next()
		if l.err != nil || t.to == len(text) && t.kind != tokenSymbol {
			return t.from // also of an open string, and a path with a dot at its end
		}
	}
}

// tail returns how many bytes of a word or string that begins at from are after
// the cursor.
func tail(text string, from, offset int) int {
	if from == offset {
		return 0
	}
	l := lexer{text: text, at: from}
	if t := l.next(); l.err == nil && t.to > offset {
		return t.to - offset
	}
	return 0
}

// suggester turns offers into suggestions that begin with the typed text, each once.
type suggester struct {
	Vocabulary
	typed string
	items []Suggestion
}

func (s *suggester) add(o offer) {
	switch {
	case o.kind == SuggestFunction && s.typed == "": // there are many
	case o.text != "":
		s.suggest(o.kind, o.text)
	case o.kind == SuggestPath:
		s.paths(o.part)
	case o.kind == SuggestRelation:
		for _, r := range s.Relations {
			s.suggest(o.kind, string(appendRelationType(nil, r)))
		}
	case o.kind == SuggestID && s.IDs != nil:
		for _, id := range s.IDs(s.open()) {
			s.suggest(o.kind, string(appendString(nil, id)))
		}
	case o.kind == SuggestValue && o.left.kind == ofPath && o.left.path.Root != RootSource:
		s.values(*o.left.path)
	}
}

// open returns the typed text without its opening quote.
func (s *suggester) open() string {
	if s.typed != "" && (s.typed[0] == '"' || s.typed[0] == '\'' || s.typed[0] == '`') {
		return s.typed[1:]
	}
	return s.typed
}

func (s *suggester) paths(part bool) {
	for _, p := range s.Paths {
		s.suggest(SuggestPath, p.String())
	}
	if part {
		return
	}
	for _, w := range []string{"id", "type", "created", "updated"} {
		s.suggest(SuggestPath, w)
	}
}

func (s *suggester) values(p Path) {
	var known []string
	switch {
	case p.Root == RootType:
		known = s.Types
	case p.Root == RootID && s.IDs != nil:
		known = s.IDs(s.open())
	case s.Values != nil:
		p.Slot = 0
		known = s.Values(p, s.open())
	}
	for _, text := range known {
		s.suggest(SuggestValue, string(appendString(nil, text)))
	}
}

// suggest adds an item if it continues the typed text. Case is ignored, and quotes need not have
// been typed: the inserted text has them.
func (s *suggester) suggest(kind SuggestionKind, text string) {
	item := Suggestion{Text: text, Kind: kind}
	typed, plain := s.open(), strings.TrimLeft(text, "\"`")
	switch {
	case typed == s.typed: // no quote
	case s.typed[0] == '`' && kind != SuggestPath && kind != SuggestRelation, s.typed[0] != '`' && plain == text:
		return
	}
	if (hasPrefixFold(plain, typed) || hasPrefixFold(text, s.typed)) && !slices.Contains(s.items, item) {
		s.items = append(s.items, item)
	}
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
