package filter

import "testing"

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
		{"suffix", "", "x", true},
	} {
		if got := newPattern(textOps[x.op], x.pattern).match(x.text); got != x.want {
			t.Errorf("%q %s %q is %v, want %v", x.text, x.op, x.pattern, got, x.want)
		}
	}
}
