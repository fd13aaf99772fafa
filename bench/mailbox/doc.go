// Package mailbox has the two candidates for the mailbox of an actor, each as small as it can
// be, so that they can be measured beside each other and beside a buffered channel:
//
//	go test -run NONE -bench . -cpu 1,2 -count 5 ./mailbox
//
// The engine has the buffers. ARCHITECTURE.md tells why, with the figures.
package mailbox
