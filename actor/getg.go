//go:build amd64 || arm64

package actor

// getg identifies the calling goroutine: it is where the runtime keeps what it knows of it, which
// stays there as long as the goroutine lives. Go says which goroutine one is on only in the text of
// its stack, which takes ten thousand times as long.
func getg() uintptr
