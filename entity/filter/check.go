package filter

import "github.com/greenroom-go/greenroom/entity/value"

// comparable checks that two operands can be compared, and returns the second
// as what it must be for that: a number that is compared with an instant is one.
func (p *parser) comparable(left, right operand, inOrder bool) (operand, error) {
	l, r := left.valueKind(), right.valueKind()
	switch {
	case l == value.KindDuration && r == 0:
		return right, p.errorf(right.at, "a duration is compared with an age; the value of %s has no unit", right.append(nil))
	case l == 0 && r == value.KindDuration:
		return right, p.errorf(right.at, "a duration is compared with an age; the value of %s has no unit, write a number or age(%s)", left.append(nil), left.append(nil))
	case inOrder && (l == value.KindBool || r == value.KindBool):
		return right, p.errorf(right.at, "true and false are in no order; compare with =")
	case l == value.KindTime && r == value.KindInt:
		ms := right.value.Int()
		if ms < value.MinTime || ms > value.MaxTime {
			return right, p.errorf(right.at, "%d is no time in milliseconds since 1970; write 2026-11-21T07:30:00Z", ms)
		}
		right.value = value.Time(ms)
		return right, nil
	case l == 0, r == 0, l == r, isNumber(l) && isNumber(r):
		return right, nil
	}
	hint := ""
	switch {
	case l == value.KindTime && r == value.KindString || l == value.KindString && r == value.KindTime:
		hint = "; a time is written without quotes: 2026-11-21T07:30:00Z"
	case l == value.KindDuration:
		hint = "; a duration is written 90s, 5m or 1h30m"
	}
	return right, p.errorf(right.at, "%s is %s and %s %s: they cannot be compared%s", left.append(nil), withArticle(l), right.append(nil), withArticle(r), hint)
}

func isNumber(k value.Kind) bool { return k == value.KindInt || k == value.KindFloat }

// checkText checks the operands of like and the operators that are like it.
func (p *parser) checkText(at int, x operand, op textOp, pattern operand) error {
	switch k := x.valueKind(); {
	case k != 0 && k != value.KindString:
		return p.errorf(at, "'%s' is about strings, and %s is %s", op, x.append(nil), withArticle(k))
	case x.kind == ofLiteral:
		return p.errorf(at, "'%s' has what is looked at on its left, as in id %s %s", op, op, x.append(nil))
	case pattern.kind != ofLiteral:
		return p.errorf(pattern.at, "'%s' needs a string, not %s", op, pattern.append(nil))
	}
	switch k := pattern.value.Kind(); {
	case k == value.KindString:
	case op == textOps["contains"] && x.valueKind() == 0 && (isNumber(k) || k == value.KindBool):
		return nil // whether an array has it
	default:
		return p.errorf(pattern.at, "'%s' needs a string, and %s is %s", op, pattern.append(nil), withArticle(k))
	}
	if op.word == "like" {
		if _, ok := likePattern(pattern.value.Text()); !ok {
			return p.errorf(pattern.at, `a backslash in a pattern is followed by %%, _ or another backslash, and is itself written \\ in a string`)
		}
	}
	return nil
}
