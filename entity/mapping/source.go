package mapping

import (
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// source reads entity.key with an optional path into a JSON value, or
// entity@section.path.
func (p *parser) source() (src Source, err error) {
	src.name = p.next().text
	if p.now().is("@") {
		return p.attribute(src)
	}
	for p.now().is(".") {
		p.next()
		t := p.now()
		if t.is("*") {
			return src, p.fail(t, "all keys at once cannot be selected; name each")
		}
		member, err := p.name("a key")
		switch {
		case err != nil:
			return src, err
		case src.Key == "":
			if kerr := checkKey(member); kerr != nil {
				return src, p.fail(t, "%v", kerr)
			}
			src.Key = member
		case len(src.Path) == MaxPath:
			return src, p.fail(t, "a path of more than %d members", MaxPath)
		case len(member) > entity.MaxKeyBytes || member == "":
			return src, p.fail(t, "a member of %d bytes; 1 to %d are right", len(member), entity.MaxKeyBytes)
		default:
			src.Path = append(src.Path, member)
		}
	}
	return src, nil
}

// attribute reads the section and path of an attribute.
func (p *parser) attribute(src Source) (_ Source, err error) {
	p.next()
	t := p.now()
	name, err := p.name("a section of attributes")
	if err != nil {
		return src, err
	}
	if src.Section, err = entity.ParseSection(name); err != nil {
		return src, p.fail(t, "%v", err)
	}
	if !p.now().is(".") {
		return src, p.fail(p.now(), "%s where '.' and the name of an attribute are expected", p.now())
	}
	for p.now().is(".") {
		p.next()
		t := p.now()
		member, err := p.name("the name of an attribute")
		if err != nil {
			return src, err
		}
		src.Path = append(src.Path, member)
		if src.Key = entity.Pointer(src.Path...); len(src.Path) > MaxPath || len(src.Key) > entity.MaxPathBytes {
			return src, p.fail(t, "a path of more than %d names or %d bytes", MaxPath, entity.MaxPathBytes)
		}
	}
	return src, nil
}

// checkSource refuses what has no meaning.
func (p *parser) checkSource(src *Source, t token) error {
	if src.Section != 0 && src.windowed() {
		return p.fail(t, "an attribute has no history for a window")
	}
	if src.Group != "" {
		switch {
		case src.Func == "":
			return p.fail(t, "%s is a group and has many values: sum(%s.%s), avg, min, max, count or last make one of them", src.Group, src.Group, quoteName(src.Key))
		case src.LastN > 0:
			return p.fail(t, "over last %d is for one entity; for a group a window has a time, such as over 5m", src.LastN)
		case src.Func == First && !src.windowed():
			return p.fail(t, "first(…) needs a window, such as over 5m")
		}
		return nil
	}
	if err := entity.CheckID(src.Entity); err != nil {
		return p.fail(t, "%v", err)
	}
	if src.Func != "" && !src.windowed() {
		return p.fail(t, "%s of one value is that value: over last 10 or over 5m is missing, or a group in from", src.Func)
	}
	return nil
}

// call reads a function: over many values with its source and window, or of
// values.
func (p *parser) call(t token) error {
	name := strings.ToLower(t.text)
	fn, many := Func(name), false
	for _, f := range funcs {
		many = many || f == fn
	}
	_, scalar := functions[name]
	if many && p.overMany() {
		return p.aggregate(fn)
	}
	if !scalar {
		if many {
			return p.fail(t, "%s(…) is over one source, such as %s(meters.power); values are put together with operators", name, name)
		}
		return p.fail(t, "there is no function %s; there are %s", t, functionNames())
	}
	p.add(item{kind: itemCall, text: name, at: t.at})
	p.next()
	return nil
}

// overMany reports whether the parentheses of a call hold one source and nothing
// else. min and max of several values have a comma.
func (p *parser) overMany() bool {
	isName := func(t token) bool { return t.kind == tokenName || t.kind == tokenQuoted }
	n := 2 // behind the name and the parenthesis
	for isName(p.peek(n)) && (p.peek(n+1).is(".") || p.peek(n+1).is("@")) {
		n += 2
	}
	return n > 2 && isName(p.peek(n)) && p.peek(n+1).is(")")
}

// aggregate reads a function over many values.
func (p *parser) aggregate(fn Func) error {
	t := p.next()
	p.next() // the parenthesis
	src, err := p.source()
	if err != nil {
		return err
	}
	p.next() // the parenthesis
	src.Func = fn
	if p.now().word("over") {
		p.next()
		if err := p.window(&src); err != nil {
			return err
		}
	}
	return p.use(src, t)
}

// window reads what follows over.
func (p *parser) window(src *Source) error {
	t := p.next()
	if t.word("last") {
		n := p.next()
		count, err := strconv.Atoi(n.text)
		if n.kind != tokenNumber || err != nil || count < 1 || count > MaxWindowReadings {
			return p.fail(n, "%s where a number of readings is expected, 1 to %d", n, MaxWindowReadings)
		}
		src.LastN = count
		return nil
	}
	stop := t.end
	for p.now().at == stop && (p.now().kind == tokenName || p.now().kind == tokenNumber) {
		stop = p.next().end
	}
	text := p.src[t.at:stop]
	d, ok := parseDuration(text)
	if t.kind != tokenNumber || !ok {
		return p.fail(t, "%s where a window is expected: last 10, or a time such as 30s, 5m, 1h30m or 7d, at most %s", brief(text), printDuration(MaxWindow))
	}
	src.Over = d
	return nil
}

// printDuration writes a duration in whole units.
func printDuration(d time.Duration) string {
	var b strings.Builder
	for _, unit := range [...]string{"d", "h", "m", "s", "ms"} {
		for _, u := range units {
			if u.name == unit && d >= u.length {
				b.WriteString(strconv.FormatInt(int64(d/u.length), 10) + unit)
				d %= u.length
			}
		}
	}
	return b.String()
}
