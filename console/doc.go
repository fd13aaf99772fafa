// Package console lets a person inspect a running system and change it: a debug console like
// skynet's, for any system of actors.
//
//	c := console.New(sys, console.Config{})
//	ln, err := console.Listen("game.sock")
//	go c.Serve(ctx, ln)
//
// A line is a command and its arguments, separated by blanks; an argument with blanks is a quoted
// Go string, such as "a b\n". If the last two arguments are -o json, the answer is JSON. help lists
// the commands; [Console.Add] adds further ones.
//
// # The socket
//
// [Listen] opens a socket to which only the user of the process may connect; whoever may connect
// may do everything. A connection sends lines, and each is answered by the command's output and a
// last line of its own, <CMD OK> or <CMD Error>, as skynet's console ends its answers. [Call] sends
// one line. There is no prompt, no login and no encryption: do not serve a listener that strangers
// can reach.
//
// # Limits
//
// A line and an answer have at most 1 MiB, a command has 2 seconds unless [Config] says otherwise,
// and a socket has 16 connections, of which one that is silent for 5 minutes is closed. Control
// characters of an answer are shown as \x1b, so that the name of an actor cannot control the
// terminal.
package console
