package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// field is one of the six. The parser accepts more than it should ("*-5", ",", "+3"),
// and does not say in which field an error is: so each is checked here before.
type field struct {
	name     string
	min, max int
	names    []string // of the values from min on
	any      string   // what stands for all values
	cyclic   int      // how many values there are in a turn
}

var fields = []field{
	{name: "second", min: 0, max: 59, any: "*", cyclic: 60},
	{name: "minute", min: 0, max: 59, any: "*", cyclic: 60},
	{name: "hour", min: 0, max: 23, any: "*", cyclic: 24},
	{name: "day of month", min: 1, max: 31, any: "*?", cyclic: 31},
	{name: "month", min: 1, max: 12, any: "*", cyclic: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of week", min: 0, max: 7, any: "*?", cyclic: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// check says what is wrong with a field, and what it must be.
func (f field) check(text string) error {
	for element := range strings.SplitSeq(text, ",") {
		if err := f.checkElement(element); err != nil {
			return err
		}
	}
	return nil
}

func (f field) checkElement(element string) error {
	if element == "" {
		return fmt.Errorf("an element of the list is missing; want %s", f.want())
	}
	span, step, stepped := strings.Cut(element, "/")
	first, last, ranged := strings.Cut(span, "-")
	low, high := f.min, f.min+f.cyclic-1
	if len(span) != 1 || !strings.Contains(f.any, span) {
		var err error
		if low, err = f.value(first); err != nil {
			return err
		}
		switch {
		case ranged:
			if high, err = f.value(last); err != nil {
				return err
			}
		case !stepped:
			high = low
		}
	}
	if !stepped {
		return nil
	}
	return f.checkStep(step, low, high)
}

// checkStep checks the step of the values from low to high.
func (f field) checkStep(step string, low, high int) error {
	values := high - low + 1
	if low > high {
		values += f.cyclic
		if f.max-f.min+1 != f.cyclic { // the parser counts Sunday twice there
			return errors.New("a step in a range that goes over Sunday is ambiguous; list the days")
		}
	}
	n, err := number(step)
	if err != nil || n < 1 {
		return fmt.Errorf("the step %q is not a positive number", step)
	}
	if n > 1 && n >= values {
		return fmt.Errorf("the step %d is not smaller than the %d values that it goes through", n, values)
	}
	return nil
}

func (f field) value(text string) (int, error) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.min + i, nil
	}
	n, err := number(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a value; want %s", text, f.want())
	}
	if n < f.min || n > f.max {
		return 0, fmt.Errorf("%s is not in the range; want %s", text, f.want())
	}
	return n, nil
}

// want says what a field may be.
func (f field) want() string {
	text := fmt.Sprintf("%d-%d", f.min, f.max)
	if len(f.names) > 0 {
		text += fmt.Sprintf(" or %s-%s", f.names[0], f.names[len(f.names)-1])
	}
	return text + ", a range a-b, *, a step */n or a-b/n, or several of these with commas"
}

// number reads decimal digits and nothing else, no sign for example.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err
}
