package template

import (
	"fmt"
	"strings"
)

// What a compiled template takes grows with its text, by a factor that depends on what is written: of
// sums of short names it is about ten, of choices and sums of one name fifty and more. Hence it has a limit
// of its own.
const (
	// MaxCompiledBytes bounds the memory of a compiled template, as it is estimated.
	MaxCompiledBytes = 2 << 20
	// MaxAllCompiledBytes bounds the memory of all compiled templates of a server.
	MaxAllCompiledBytes = 32 << 20
)

// What the parts of a compiled template take, in bytes, with the parts of the set that they lead to,
// rounded to the sizes of the allocator. A test compares the sums with the heap.
const (
	templateSize   = 768
	expressionSize = 32
	pathSize       = 32 // of the list of an expression
	nameSize       = 24
	partSize       = 48 // of a text
	textSize       = 32
	levelSize      = 80  // of a topic, with its node
	textLevelSize  = 256 // more, of one that is a text: the map that leads to it
	useSize        = 96
	commandSize    = 256
	answerSize     = 96
)

// checkSize sets the size of a template that is compiled, and checks it.
func (t *Template) checkSize(c *compiled) error {
	size, largest := c.bytes()
	if c.size = size; size > MaxCompiledBytes {
		return &Error{In: largest, Text: fmt.Sprintf("the template would take %d bytes of memory when compiled, of which this takes most; at most %d are allowed", size, MaxCompiledBytes)}
	}
	return nil
}

// bytes returns how much memory the compiled template takes, an estimate that is off by at most a
// factor of two, and the member of the template that takes most of it.
func (c *compiled) bytes() (size int, largest string) {
	size, most := templateSize, 0
	add := func(n int, format string, args ...any) {
		if size += n; n > most {
			largest, most = fmt.Sprintf(format, args...), n
		}
	}
	add(c.topic.bytes(), "topic")
	add(c.entity.bytes(), "entity")
	add(c.when.bytes(), "when")
	add(c.time.bytes(), "time")
	for i := range c.values {
		k := &c.values[i]
		add(k.key.bytes()+k.value.bytes(), "values.%s", &k.key)
	}
	for i := range c.commands {
		r := &c.commands[i]
		add(commandSize+r.topic.bytes()+r.to.bytes()+r.answer.bytes(), "commands[%d]", i)
	}
	return size, largest
}

// bytes returns how much memory the expression takes. It may be called on nil.
func (x *expression) bytes() int {
	if x == nil {
		return 0
	}
	size := expressionSize + x.Bytes()
	for _, path := range x.paths {
		size += pathSize + nameSize*len(path)
	}
	return size
}

// bytes returns how much memory the topic takes, in the tree of the set, too.
func (p *pattern) bytes() int {
	size := useSize
	for _, l := range p.levels {
		if size += levelSize; !l.placeholder {
			size += textLevelSize
		}
	}
	return size
}

// bytes returns how much memory the text takes, without its literal parts.
func (t *text) bytes() int { return textSize + partSize*len(t.parts) }

// bytes returns how much memory the answer takes. It may be called on nil.
func (a *answer) bytes() int {
	if a == nil {
		return 0
	}
	return answerSize + len(a.shape) + a.topic.bytes() + a.number.bytes() + a.result.bytes() + a.error.bytes()
}

// String returns the text as it was written.
func (t *text) String() string {
	var s strings.Builder
	for _, p := range t.parts {
		s.WriteString(p.text)
		if p.name != "" {
			s.WriteString("{" + p.name + "}")
		}
	}
	return s.String()
}
