package entity

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckID returns an error if id cannot name an entity: it must have 1 to MaxIDBytes bytes of UTF-8
// with no control character, no '/', '+' or '#' (they have a meaning in MQTT topics and in paths),
// and no space at either end, and must not be "." or "..", which no path can contain. The error
// wraps ErrInvalid and says which rule was broken.
func CheckID(id string) error {
	if err := checkName("entity id", id, MaxIDBytes); err != nil {
		return err
	}
	if i := strings.IndexAny(id, "/+#"); i >= 0 {
		return fmt.Errorf("entity id %q: %w: '%c' is not allowed; must have none of / + #", id, ErrInvalid, id[i])
	}
	if id == "." || id == ".." {
		return fmt.Errorf("entity id %q: %w: must not be . or .., which have a meaning in paths", id, ErrInvalid)
	}
	if strings.TrimSpace(id) != id {
		return fmt.Errorf("entity id %q: %w: must not begin or end with a space", id, ErrInvalid)
	}
	return nil
}

// CheckKey is CheckID for the key of a sample: 1 to MaxKeyBytes bytes of UTF-8 with no
// control character.
func CheckKey(key string) error { return checkName("key", key, MaxKeyBytes) }

// checkName returns an error if text is not a valid name of at most most bytes.
func checkName(what, name string, most int) error { //nolint:unparam // the bounds are equal today
	if name == "" || len(name) > most {
		return fmt.Errorf("%s %.32q: %w: must have 1 to %d bytes, not %d", what, name, ErrInvalid, most, len(name))
	}
	for i := range len(name) {
		if name[i] < ' ' || name[i] >= 0x7f { // seldom
			return checkCharacters(what, name)
		}
	}
	return nil
}

func checkCharacters(what, name string) error {
	if !utf8.ValidString(name) {
		return fmt.Errorf("%s %q: %w: must be UTF-8", what, name, ErrInvalid)
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("%s %q: %w: must not have the control character %U", what, name, ErrInvalid, r)
		}
	}
	return nil
}
