// Package procid names processes so that another process of the same machine can tell for sure that one has ended.
package procid

import "strings"

// Own returns the identity of this process, "" where it cannot be known: on systems other than
// Linux, and without /proc. It is safe for concurrent use.
func Own() string { return own() }

// Ended reports whether the process with that identity has certainly ended. It is false for one
// that lives, for "", and for one of another machine, another boot of it or another namespace of
// processes, of which nothing can be said here. Virtual machines that were resumed from one
// snapshot of memory are one machine by that. It is safe for concurrent use.
func Ended(id string) bool {
	place, process, ok := cut(id)
	if !ok {
		return false
	}
	here, _, ok := cut(own())
	return ok && place == here && ended(process)
}

// cut divides an identity into the place, where numbers of processes mean the same, and the process there.
func cut(id string) (place, process string, ok bool) {
	i := strings.LastIndexByte(id, ' ')
	if i <= 0 {
		return "", "", false
	}
	return id[:i], id[i+1:], true
}
