package actor

// required panics with a text that names what is missing. It is for programmer's errors that
// would otherwise show far from their cause, as a nil dereference in some later turn.
func required(given bool, what string) {
	if !given {
		panic("actor: " + what)
	}
}
