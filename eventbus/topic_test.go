package eventbus

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestTopicsAndPatternsAreChecked(t *testing.T) {
	long := strings.Repeat("x", MaxTopic)
	for _, tc := range []struct{ text, topic, pattern string }{ // what the error must say, "" for none
		{"a", "", ""},
		{"sensors.kitchen.temp", "", ""},
		{"küche.温度.x-1_2", "", ""},
		{"a.>b", "has a '>'", "token of its own"},
		{"sensors.*.temp", "has a '*'; wildcards are for Subscribe", ""},
		{"*", "has a '*'", ""},
		{">", "has a '>'", ""},
		{"a.*.*.>", "token 2 has a '*'", ""},
		{"", "is empty; want", "is empty; want"},
		{"a..b", "token 2 is empty", "token 2 is empty"},
		{".a", "token 1 is empty", "token 1 is empty"},
		{"a.", "token 2 is empty", "token 2 is empty"},
		{">.a", "has a '>'", "only the last can be"},
		{"a*b", "has a '*'", "token of its own"},
		{"a b", "has the character ' '", "has the character ' '"},
		{"a.b\n", "token 2 has the character '\\n'", "token 2 has the character '\\n'"},
		{"a.\xff", "is not UTF-8", "is not UTF-8"},
		{"a.\uFFFD", "", ""},
		{long, "", ""},
		{long + "x", "are more than 1024", "are more than 1024"},
	} {
		for what, got := range map[string]struct {
			err  error
			want string
		}{"topic": {CheckTopic(tc.text), tc.topic}, "pattern": {CheckPattern(tc.text), tc.pattern}} {
			switch {
			case got.want == "" && got.err != nil, got.want != "" && got.err == nil:
				t.Errorf("%s %.20q: %v, want %q", what, tc.text, got.err, got.want)
			case got.err != nil && (!errors.Is(got.err, ErrTopic) || !strings.Contains(got.err.Error(), got.want)):
				t.Errorf("%s %.20q: %v, want %q", what, tc.text, got.err, got.want)
			}
		}
	}
}

// naive is the meaning of a pattern, written down as plainly as can be.
func naive(pattern, topic []string) bool {
	switch {
	case len(pattern) == 0 || len(topic) == 0:
		return len(pattern) == 0 && len(topic) == 0
	case pattern[0] == ">":
		return true
	default:
		return (pattern[0] == "*" || pattern[0] == topic[0]) && naive(pattern[1:], topic[1:])
	}
}

// naiveOverlap reports whether two patterns have a topic in common.
func naiveOverlap(p, q []string) bool {
	switch {
	case len(p) == 0 || len(q) == 0:
		return len(p) == 0 && len(q) == 0
	case p[0] == ">" || q[0] == ">":
		return true
	default:
		return (p[0] == "*" || q[0] == "*" || p[0] == q[0]) && naiveOverlap(p[1:], q[1:])
	}
}

// checkTrie compares a trie with the naive matcher: it adds the patterns, removes some,
// and after each step asks for each of the topics and patterns.
func checkTrie(t *testing.T, rng *rand.Rand, patterns, topics []string) {
	t.Helper()
	var tr trie
	var there []*Subscription
	for _, p := range patterns {
		s := &Subscription{pattern: p}
		tr.add(s)
		there = append(there, s)
		if rng.IntN(3) == 0 {
			i := rng.IntN(len(there))
			there[i].ended.Store(true)
			tr.remove(there[i])
			there = slices.Delete(there, i, i+1)
		}
	}
	for _, topic := range append(slices.Clone(patterns), topics...) {
		tokens := strings.Split(topic, ".")
		compareFound(t, "overlap "+topic, tr.root.overlap(topic, nil), there, func(p []string) bool { return naiveOverlap(p, tokens) })
		if CheckTopic(topic) != nil {
			continue
		}
		compareFound(t, "match "+topic, tr.root.match(topic, nil), there, func(p []string) bool { return naive(p, tokens) })
		for _, s := range there {
			if got, want := Match(s.pattern, topic), naive(strings.Split(s.pattern, "."), tokens); got != want {
				t.Errorf("Match(%q, %q) = %v", s.pattern, topic, got)
			}
		}
	}
	for _, s := range there {
		s.ended.Store(true)
		tr.remove(s)
	}
	if !tr.root.empty() {
		t.Errorf("something is left of an empty trie")
	}
	for token := range tr.root.tokens.Range {
		t.Errorf("the token %v is left of an empty trie", token)
	}
}

func compareFound(t *testing.T, what string, found, there []*Subscription, matches func([]string) bool) {
	t.Helper()
	count := map[*Subscription]int{}
	for _, s := range found {
		if !s.ended.Load() {
			count[s]++
		}
	}
	for _, s := range there {
		want := 0
		if matches(strings.Split(s.pattern, ".")) {
			want = 1
		}
		if count[s] != want {
			t.Errorf("%s: found %q %d times, want %d", what, s.pattern, count[s], want)
		}
		delete(count, s)
	}
	for s := range count {
		t.Errorf("%s: found %q, which was removed", what, s.pattern)
	}
}

func TestTrieFindsWhatTheNaiveMatcherFinds(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		text := func(wild bool) string {
			var tokens []string
			for range 1 + rng.IntN(4) {
				if token := "abc**"[rng.IntN(5)]; wild || token != '*' {
					tokens = append(tokens, string(token))
				} else {
					tokens = append(tokens, "a")
				}
			}
			if wild && rng.IntN(4) == 0 {
				tokens[len(tokens)-1] = ">"
			}
			return strings.Join(tokens, ".")
		}
		var patterns, topics []string
		for range 30 {
			patterns, topics = append(patterns, text(true)), append(topics, text(false))
		}
		checkTrie(t, rng, patterns, topics)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// Two subscriptions end at the same time: both are marked before the first is removed.
func TestTrieRemovesWhatHasEndedTogether(t *testing.T) {
	for _, pattern := range []string{"a.b", "a.*", "a.>"} {
		var tr trie
		one, two := &Subscription{pattern: pattern}, &Subscription{pattern: pattern}
		tr.add(one)
		tr.add(two)
		one.ended.Store(true)
		two.ended.Store(true)
		tr.remove(one)
		tr.remove(two)
		if !tr.root.empty() {
			t.Errorf("%s: something is left of an empty trie", pattern)
		}
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("sensors.*.temp a.> *.b", "sensors.kitchen.temp a.b a.b.c")
	f.Add("> * *.* *.> a.*.> a.b.c", "a a.b a.b.c a.b.c.d")
	f.Add("a.* a.* a.>", "a b a. .b")
	f.Fuzz(func(t *testing.T, patternList, topicList string) {
		keep := func(list string, check func(string) error) (good []string) {
			for s := range strings.SplitSeq(list, " ") {
				if check(s) == nil && len(good) < 20 {
					good = append(good, s)
				}
			}
			return good
		}
		checkTrie(t, rand.New(rand.NewPCG(uint64(len(patternList)), uint64(len(topicList)))), keep(patternList, CheckPattern), keep(topicList, CheckTopic))
	})
}

func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{10, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var tr trie
			for i := range n {
				tr.add(&Subscription{pattern: fmt.Sprintf("sensors.room-%d.temp", i)})
			}
			tr.add(&Subscription{pattern: "sensors.*.temp"})
			tr.add(&Subscription{pattern: "sensors.>"})
			var few [16]*Subscription
			b.ReportAllocs()
			for b.Loop() {
				if got := tr.root.match("sensors.room-7.temp", few[:0]); len(got) != 3 {
					b.Fatal(len(got))
				}
			}
		})
	}
}
