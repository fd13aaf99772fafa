// Package mailbox contains the two candidates for the mailbox of an actor, each as small as
// possible, so that they can be compared with each other and with a buffered channel:
//
//	go test -run NONE -bench . -cpu 1,2 -count 5 ./mailbox
//
// The engine uses the buffers. ARCHITECTURE.md explains why, with the figures.
package mailbox
