package eventbus

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrTopic says that a topic or a pattern is malformed. The error that wraps it names
// the token and its problem.
var ErrTopic = errors.New("bad topic")

// MaxTopic is the longest topic and the longest pattern, in bytes.
const MaxTopic = 1024

// CheckTopic returns nil if events can be published to the topic: one or more tokens
// separated by dots, at most [MaxTopic] bytes of UTF-8. A token must not be empty and
// must not contain spaces, control characters, '*' or '>'. The error wraps [ErrTopic].
func CheckTopic(topic string) error { return check(topic, false) }

// CheckPattern returns nil if the pattern can be subscribed to: it is a topic in which a
// whole token may be '*', and the last one '>'. The error wraps [ErrTopic].
func CheckPattern(pattern string) error { return check(pattern, true) }

func check(text string, wild bool) error {
	switch {
	case text == "":
		return fmt.Errorf("%w: it is empty; want tokens with dots between them, \"sensors.kitchen.temp\" for example", ErrTopic)
	case len(text) > MaxTopic:
		return fmt.Errorf("%w: %d bytes are more than %d", ErrTopic, len(text), MaxTopic)
	}
	number := 0
	for rest, more := text, true; more; {
		var token string
		token, rest, more = cut(rest)
		number++
		if problem := checkToken(token, wild, !more); problem != "" {
			return fmt.Errorf("%w %q: token %d %s", ErrTopic, text, number, problem)
		}
	}
	return nil
}

// checkToken says what is wrong with a token, "" if nothing is.
func checkToken(token string, wild, last bool) string {
	if token == "" {
		return "is empty: a dot stands between two tokens"
	}
	if wild && (token == "*" || token == ">" && last) {
		return ""
	}
	for i, r := range token {
		switch {
		case wild && token == ">":
			return "is '>', which only the last can be"
		case r == '*' || r == '>':
			if wild {
				return fmt.Sprintf("has a %q; a wildcard is a token of its own", r)
			}
			return fmt.Sprintf("has a %q; wildcards are for Subscribe and PublishAll", r)
		case r == utf8.RuneError && !utf8.ValidString(token[i:]):
			return "is not UTF-8"
		case unicode.IsSpace(r) || unicode.IsControl(r):
			return fmt.Sprintf("has the character %q; want none of space and control", r)
		}
	}
	return ""
}

// cut returns the first token, what comes after its dot, and whether there was a dot.
func cut(s string) (token, rest string, more bool) {
	return strings.Cut(s, ".")
}

// Match reports whether the pattern matches the topic. It checks neither: for a
// malformed topic or pattern the result is unspecified.
func Match(pattern, topic string) bool { return covers(pattern, topic) }

// covers reports whether a pattern stands for all topics that the other one stands for.
func covers(pattern, other string) bool {
	for {
		p, patternRest, morePattern := cut(pattern)
		o, otherRest, moreOther := cut(other)
		switch {
		case p == ">" && !morePattern:
			return true
		case o == ">" && !moreOther, p != "*" && p != o, morePattern != moreOther:
			return false
		case !morePattern:
			return true
		}
		pattern, other = patternRest, otherRest
	}
}
