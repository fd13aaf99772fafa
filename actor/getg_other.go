//go:build !amd64 && !arm64

package actor

// getg identifies the calling goroutine by its number.
func getg() uintptr { return uintptr(goroutineID()) }
