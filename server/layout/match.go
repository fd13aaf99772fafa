package layout

import "strings"

// Matches reports whether an MQTT filter, with + and #, matches a topic. MQTT 5.0, 4.7.
func Matches(filter, topic string) bool {
	for {
		part, rest, more := strings.Cut(filter, "/")
		if part == "#" {
			return true
		}
		level, tail, deeper := strings.Cut(topic, "/")
		if part != "+" && part != level {
			return false
		}
		if !more || !deeper {
			return more == deeper || more && rest == "#" // a/# matches a
		}
		filter, topic = rest, tail
	}
}
