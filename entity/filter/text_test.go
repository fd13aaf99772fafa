package filter

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/internal/heaptest"
)

func TestTextOperators(t *testing.T) {
	for _, x := range []struct {
		op, pattern, text string
		want              bool
	}{
		{"ilike", "k", "\u212a", true}, // the Kelvin sign
		{"ilike", "\u212a", "K", true},
		{"ilike", "s%", "\u017fX", true}, // the long s
		{"ilike", "ß", "SS", false},
		{"ilike", "ΣΊ", "ςί", true},
		{"icontains", "ÄÖ", "xäöx", true},
		{"icontains", "", "", true},
		{"isuffix", "É", "café", true},
		{"isuffix", "xyz", "yz", false},
		{"iprefix", "ab", "A", false},
		{"like", "", "", true},
		{"like", "", "a", false},
		{"like", "%", "", true},
		{"like", "_", "é", true},
		{"like", "_", "", false},
		{"like", "a%a", "a", false},
		{"like", "a%a", "aa", true},
		{"like", "a%b%c", "a-bb-bc", true},
		{"like", "%b_d%", "abcabxd", true},
		{"like", "%b_d", "abcd", true},
		{"like", `100\%`, "100%", true},
		{"like", `100\%`, "1000", false},
		{"like", `a\_\\`, `a_\`, true},
		{"like", "a%%%b", "ab", true},
		{"prefix", "é", "éa", true},
		{"icontains", "aab", "AAAAB", true},
		{"icontains", "abab", "abaABAB", true},
		{"icontains", "ababc", "abababd", false},
		{"ilike", "%aab%b_%", "aaabbx", true},
		{"like", "%ab%_%", "aab", false},
		{"suffix", "", "x", true},
	} {
		if got := newPattern(textOps[x.op], x.pattern).match(x.text); got != x.want {
			t.Errorf("%q %s %q is %v, want %v", x.text, x.op, x.pattern, got, x.want)
		}
	}
}

// The text was searched from each of its characters: 65 kB and half of that took seconds.
func TestALongTextIsSearchedOnce(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a", 64<<10)
	p := newPattern(textOps["icontains"], strings.Repeat("a", 15<<10)+"b")
	for range 200 {
		if p.match(text) {
			t.Fatal("it matches")
		}
	}
}

// One with _ between % was, until it was found to take longer still.
func TestALongTextIsSearchedOnceForWildcards(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a", 64<<10)
	for _, part := range []string{strings.Repeat("a", 8<<10) + "_b", strings.Repeat("a_", 4<<10) + "b", strings.Repeat("_", 8<<10) + "b"} {
		for _, op := range []string{"like", "ilike"} {
			if newPattern(textOps[op], "%"+part+"%").match(text) {
				t.Fatal("it matches")
			}
		}
	}
}

func TestWildcardsStandForOneCharacter(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	of := func(n int, alphabet string) string {
		letters := []rune(alphabet)
		text := make([]rune, n)
		for i := range text {
			text[i] = letters[random.IntN(len(letters))]
		}
		return string(text)
	}
	matched := 0
	for round := range 1000 {
		text, like := of(random.IntN(30), "aé"), of(1+random.IntN(9), "aé__%")
		if round%10 == 5 { // longer than what is compared at each place
			middle := of(shortPiece+random.IntN(40), "aaé")
			text = of(random.IntN(20), "aé") + middle + "é" + of(random.IntN(20), "aé")
			like = "%" + middle + "_%"
		}
		if round%10 == 0 { // more than a word, and more than fit without an allocation
			n := 60 + random.IntN(700)
			text = of(random.IntN(40), "aé") + of(n, "a") + of(random.IntN(40), "aé")
			like = "%" + of(n-1, "a") + "_" + of(random.IntN(2), "aé%") + "%"
		}
		expression := regexp.MustCompile("(?s)^" + strings.NewReplacer("%", ".*", "_", ".").Replace(like) + "$")
		want := expression.MatchString(text)
		for _, op := range []string{"like", "ilike"} {
			if got := newPattern(textOps[op], like).match(text); got != want {
				t.Fatalf("%q %s %q is %v", text, op, like, got)
			}
		}
		if want {
			matched++
		}
	}
	if matched < 100 {
		t.Errorf("only %d matched", matched)
	}
}

func TestSearchFindsWhatIsThere(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	of := func(n int) string {
		text := make([]byte, n)
		for i := range text {
			text[i] = "abAB"[random.IntN(4)]
		}
		return string(text)
	}
	found := 0
	for range 20_000 {
		text, part := of(random.IntN(30)), of(random.IntN(6))
		if n := len(text); n > shortPiece+2 && random.IntN(4) == 0 { // a long piece, which is there in part or in full
			part = text[:shortPiece+1+random.IntN(n-shortPiece-1)]
			text = of(random.IntN(9)) + part[:random.IntN(len(part))] + text[:random.IntN(n)+1] + of(random.IntN(9))
		}
		want := strings.Contains(strings.ToLower(text), strings.ToLower(part))
		if got := newPattern(textOps["icontains"], part).match(text); got != want {
			t.Fatalf("%q icontains %q is %v", text, part, got)
		}
		if want {
			found++
		}
	}
	if found < 1000 {
		t.Errorf("only %d were there", found)
	}
}

// Those with many pieces took nearly two hundred times their text. Not parallel: it measures the heap.
func TestAPatternTakesMemoryInProportionToItsText(t *testing.T) {
	const most = 32
	for _, part := range []string{"%_a", "%a_", "%_", "%a%b_", "%abcd_efgh", "%aaaa_aaaaaaaaaaaa", "abcdefgh_", "a", "%a"} {
		text := strings.Repeat(part, 15_000/len(part))
		for _, op := range []string{"like", "ilike"} {
			took := 0
			for range 3 { // what earlier tests have left may be freed meanwhile
				before := heaptest.Live()
				p := newPattern(textOps[op], text)
				took = heaptest.Live() - before
				estimated := p.size()
				if took <= most*len(text) && estimated >= took/2 && estimated <= 2*took {
					took = 0
					break
				}
				t.Logf("%s %s: %d bytes for %d, estimated %d", op, part, took, len(text), estimated)
			}
			if took != 0 {
				t.Errorf("%s %s: %d bytes for a text of %d, want at most %d times as many, as estimated within a factor of two", op, part, took, len(text), most)
			}
		}
	}
}
