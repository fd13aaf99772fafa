package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/greenroom-go/greenroom/console"
	"github.com/greenroom-go/greenroom/server"
)

// consoleAnswer bounds a command of the console, including the connection.
const consoleAnswer = 4 * console.MaxTime

func newConsole() *cobra.Command {
	var data, socket string
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Inspect and change a running server.",
		Long: `Inspect and change a server that runs on this machine, with commands: help lists
them. The console uses the socket console.sock in the server's data directory, which
only the server's user may open.

On a terminal, Tab completes commands and the addresses of actors, the arrow keys
recall earlier lines, including those of earlier sessions, and Ctrl-D ends the
console. Lines from a pipe are run one after the other, until one fails.

A word @FILE stands for the text of a file.`,
		Example: `  greenroom console
  echo 'top mailbox' | greenroom console --data /var/lib/greenroom`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if socket == "" {
				socket = server.ConsoleSocket(data)
			}
			if socket == "" {
				return usagef("--data must be the data directory of a server; pass the socket of one that has none with --socket")
			}
			if _, err := callConsole(cmd.Context(), socket, "ping"); err != nil {
				return err
			}
			in, ok := cmd.InOrStdin().(*os.File)
			if ok && term.IsTerminal(int(in.Fd())) { //nolint:gosec // as the package wants it
				return converse(cmd.Context(), socket, in)
			}
			return runLines(cmd.Context(), socket, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&data, "data", server.DefaultDataDir, "data directory of the server")
	cmd.Flags().StringVar(&socket, "socket", "", "socket of the console, if it is not in the data directory")
	return cmd
}

// callConsole executes one line.
func callConsole(ctx context.Context, socket, line string) (string, error) {
	line, err := withFiles(line)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, consoleAnswer)
	defer cancel()
	out, err := console.Call(ctx, socket, line)
	if at, ok := errors.AsType[*net.OpError](err); ok && at.Op == "dial" {
		err = fmt.Errorf("no console at %s: %w; start a server with greenroom serve, or pass its data directory with --data", socket, at.Err)
	}
	return out, err
}

// withFiles replaces words that name files, as in @name, by their contents.
func withFiles(line string) (string, error) {
	if !strings.Contains(line, " @") {
		return line, nil
	}
	words := strings.Split(line, " ")
	for i, word := range words {
		file, ok := strings.CutPrefix(word, "@")
		if !ok || file == "" || i == 0 {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		words[i] = strconv.Quote(string(text))
	}
	return strings.Join(words, " "), nil
}

// runLines executes the lines of in, until one fails.
func runLines(ctx context.Context, socket string, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		answer, err := callConsole(ctx, socket, lines.Text())
		if err != nil {
			return err
		}
		if _, err := io.WriteString(out, answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

// converse executes lines typed at a terminal, until the user leaves.
func converse(ctx context.Context, socket string, terminal *os.File) (err error) {
	fd := int(terminal.Fd()) //nolint:gosec // as the package wants it
	before, err := term.MakeRaw(fd)
	if err != nil {
		return fmt.Errorf("set up the terminal: %w", err)
	}
	defer func() { err = errors.Join(err, term.Restore(fd, before)) }()
	c := &conversation{ctx: ctx, socket: socket, fd: fd, terminal: term.NewTerminal(terminal, "> ")}
	c.terminal.AutoCompleteCallback = c.complete
	history, err := openHistory()
	if err != nil {
		fmt.Fprintf(c.terminal, "what is typed is not kept: %v\n", err)
	} else {
		c.terminal.History = history
	}
	ended := make(chan error, 1)
	go func() { ended <- c.talk() }() // reading from a terminal cannot be interrupted
	select {
	case err = <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

// conversation is a session at a terminal.
type conversation struct {
	ctx      context.Context //nolint:containedctx // that of the command
	socket   string
	fd       int
	terminal *term.Terminal
}

// talk executes lines until the user leaves.
func (c *conversation) talk() error {
	for {
		if width, height, err := term.GetSize(c.fd); err == nil && width > 0 {
			_ = c.terminal.SetSize(width, height) // only the layout suffers
		}
		line, err := c.terminal.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, term.ErrPasteIndicator) {
			return err
		}
		answer, err := callConsole(c.ctx, c.socket, line)
		if err != nil {
			answer = err.Error() + "\n"
		}
		if _, err := io.WriteString(c.terminal, answer); err != nil {
			return err
		}
	}
}

// complete is called for each key. For a Tab it inserts the common prefix of all completions of the
// line, or lists them if that is empty.
func (c *conversation) complete(line string, pos int, key rune) (string, int, bool) {
	if key != '\t' {
		return "", 0, false
	}
	typed := line[:pos]
	answer, err := callConsole(c.ctx, c.socket, "complete "+strconv.Quote(typed))
	if err != nil || answer == "" {
		return line, pos, true
	}
	lines := strings.Split(strings.TrimSuffix(answer, "\n"), "\n")
	common := lines[0]
	for _, l := range lines[1:] {
		for !strings.HasPrefix(l, common) {
			_, size := utf8.DecodeLastRuneInString(common)
			common = common[:len(common)-size]
		}
	}
	if len(lines) == 1 {
		common += " "
	} else if common == typed {
		at := strings.LastIndexByte(typed, ' ') + 1
		for i := range lines {
			lines[i] = lines[i][min(at, len(lines[i])):]
		}
		fmt.Fprintln(c.terminal, strings.Join(lines, "  "))
	}
	return common + line[pos:], len(common), true
}

// maxHistory bounds the lines of the history.
const maxHistory = 1000

// typed is the history of a terminal, oldest line first, which is also stored in a file. It must
// not be used concurrently.
type typed struct {
	lines []string
	file  string
}

// historyVariable is the environment variable with the name of the file of earlier lines.
const historyVariable = "GREENROOM_HISTORY"

// openHistory reads the history of earlier sessions.
func openHistory() (*typed, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	h := &typed{file: cmp.Or(os.Getenv(historyVariable), filepath.Join(home, ".greenroom_history"))}
	text, err := os.ReadFile(h.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	h.lines = strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	h.lines = h.lines[max(0, len(h.lines)-maxHistory):]
	return h, nil
}

// Add adds a line. If it cannot be written to the file, it is kept for this session only.
func (h *typed) Add(line string) {
	if strings.TrimSpace(line) == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	h.lines = h.lines[max(0, len(h.lines)-maxHistory):]
	_ = os.WriteFile(h.file, []byte(strings.Join(h.lines, "\n")+"\n"), 0o600) // see above
}

// Len returns the number of lines.
func (h *typed) Len() int { return len(h.lines) }

// At returns a line; 0 is the latest.
func (h *typed) At(i int) string { return h.lines[len(h.lines)-1-i] }
