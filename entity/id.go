package entity

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckID tells whether id can name an entity: 1 to MaxIDBytes bytes of UTF-8
// with no control character, no '/', '+' or '#' (they have a meaning in MQTT
// topics and in paths), and no space at either end. The error wraps ErrInvalid
// and says which rule was broken.
func CheckID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("entity id: %w: it is empty; it needs 1 to %d bytes", ErrInvalid, MaxIDBytes)
	case len(id) > MaxIDBytes:
		return fmt.Errorf("entity id: %w: %d bytes; at most %d are allowed", ErrInvalid, len(id), MaxIDBytes)
	case !utf8.ValidString(id):
		return fmt.Errorf("entity id %q: %w: not UTF-8", id, ErrInvalid)
	}
	if i := strings.IndexAny(id, "/+#"); i >= 0 {
		return fmt.Errorf("entity id %q: %w: '%c' is not allowed; none of / + # is", id, ErrInvalid, id[i])
	}
	first, _ := utf8.DecodeRuneInString(id)
	last, _ := utf8.DecodeLastRuneInString(id)
	if unicode.IsSpace(first) || unicode.IsSpace(last) {
		return fmt.Errorf("entity id %q: %w: it starts or ends with a space", id, ErrInvalid)
	}
	for _, r := range id {
		if unicode.IsControl(r) {
			return fmt.Errorf("entity id %q: %w: control character %U", id, ErrInvalid, r)
		}
	}
	return nil
}

// checkKey is the same for the key of a sample, where only control characters
// and the length matter.
func checkKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("key: %w: it is empty; it needs 1 to %d bytes", ErrInvalid, MaxKeyBytes)
	case len(key) > MaxKeyBytes:
		return fmt.Errorf("key %.32q…: %w: %d bytes; at most %d are allowed", key, ErrInvalid, len(key), MaxKeyBytes)
	}
	for i := 0; i < len(key); i++ {
		if c := key[i]; c >= utf8.RuneSelf {
			return checkWideKey(key)
		} else if c < ' ' || c == 0x7f {
			return fmt.Errorf("key %q: %w: control character %U", key, ErrInvalid, rune(c))
		}
	}
	return nil
}

func checkWideKey(key string) error {
	if !utf8.ValidString(key) {
		return fmt.Errorf("key %q: %w: not UTF-8", key, ErrInvalid)
	}
	for _, r := range key {
		if unicode.IsControl(r) {
			return fmt.Errorf("key %q: %w: control character %U", key, ErrInvalid, r)
		}
	}
	return nil
}
