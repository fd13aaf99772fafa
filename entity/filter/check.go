package filter

import "github.com/greenroom-go/greenroom/entity/value"

// comparable checks that two operands can be compared, and returns the second converted for that: a
// number that is compared with an instant becomes one.
func (p *parser) comparable(left, right operand, inOrder bool) operand {
	l, r := left.valueKind(), right.valueKind()
	switch {
	case l == value.KindDuration && r == 0:
		p.fail(right.at, "a duration is compared with an age; the value of %s has no unit", right.append(nil))
	case l == 0 && r == value.KindDuration:
		p.fail(right.at, "a duration is compared with an age; the value of %s has no unit, write a number or age(%s)", left.append(nil), left.append(nil))
	case inOrder && (l == value.KindBool || r == value.KindBool):
		p.fail(right.at, "true and false are in no order; compare with =")
	case l == value.KindTime && r == value.KindInt:
		ms := right.value.Int()
		if ms < value.MinTime || ms > value.MaxTime {
			p.fail(right.at, "a time must be from %d to %d in milliseconds since 1970, as is 2026-11-21T07:30:00Z, not %d", value.MinTime, value.MaxTime, ms)
		}
		right.value = value.Time(ms)
	case l == 0, r == 0, l == r, isNumber(l) && isNumber(r):
	default:
		hint := ""
		switch {
		case l == value.KindTime && r == value.KindString || l == value.KindString && r == value.KindTime:
			hint = "; a time is written without quotes: 2026-11-21T07:30:00Z"
		case l == value.KindDuration:
			hint = "; a duration is written 90s, 5m or 1h30m"
		}
		p.fail(right.at, "%s is %s and %s %s: they cannot be compared%s", left.append(nil), withArticle(l), right.append(nil), withArticle(r), hint)
	}
	return right
}

func isNumber(k value.Kind) bool { return k == value.KindInt || k == value.KindFloat }

// checkText checks the operands of like and the other text operators.
func (p *parser) checkText(at int, x operand, op textOp, pattern operand) {
	kind, k := x.valueKind(), pattern.value.Kind()
	switch {
	case kind != 0 && kind != value.KindString:
		p.fail(at, "'%s' is about strings, and %s is %s", op, x.append(nil), withArticle(kind))
	case x.kind == ofLiteral:
		p.fail(at, "'%s' has what is looked at on its left, as in id %s %s", op, op, x.append(nil))
	case pattern.kind != ofLiteral:
		p.fail(pattern.at, "'%s' needs a string, not %s", op, pattern.append(nil))
	case op == textOps["contains"] && kind == 0 && (isNumber(k) || k == value.KindBool): // whether an array has it
	case k != value.KindString:
		p.fail(pattern.at, "'%s' needs a string, and %s is %s", op, pattern.append(nil), withArticle(k))
	case op.word == "like":
		if _, ok := likePattern(pattern.value.Text()); !ok {
			p.fail(pattern.at, "%v", errBackslash)
		}
	}
}
