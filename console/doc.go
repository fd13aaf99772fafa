// Package console lets a person look into a running system and change it: a debug console in the
// manner of skynet's, for any system of actors.
//
//	c := console.New(sys, console.Config{})
//	ln, err := console.Listen("game.sock")
//	go c.Serve(ctx, ln)
//
// A line is a command and its arguments, separated by blanks; an argument with blanks is a quoted
// text of Go, such as "a b\n". With -o json as the last two arguments the answer is JSON. help
// lists the commands; [Console.Add] adds further ones.
//
// # The socket
//
// [Listen] opens a socket that only the user of the process may connect to; who may do so may do
// everything. A connection sends lines, and each is answered by the command's output and a last line
// of its own, <CMD OK> or <CMD Error>, as skynet's console ends its answers. [Call] sends one line.
// There is no prompt, no login and no encryption: do not serve a listener that strangers reach.
//
// # Limits
//
// A line has at most 1 MiB, an answer as well, a command 2 seconds, and a socket 16 connections, of which
// one that is silent for 5 minutes is closed. Control characters of an answer are shown as \x1b, so that
// the name of an actor cannot steer the terminal.
package console
