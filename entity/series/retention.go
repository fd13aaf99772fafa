package series

import (
	"cmp"
	"slices"
)

// Action is what a Task does.
type Action uint8

// The actions.
const (
	RollUp Action = iota + 1 // make rows
	Delete                   // delete rows or values
)

// String returns the name of the action.
func (a Action) String() string {
	switch a {
	case RollUp:
		return "roll up"
	case Delete:
		return "delete"
	default:
		return "none"
	}
}

// Task is one step that changes what is kept.
type Task struct {
	Action Action
	// Step is the step of the tier whose rows are made or deleted, 0 if values are deleted.
	Step Span
	// Source is the step of the tier from which the rows are made, 0 for the values.
	Source Span
	// Percentiles says whether the rows have percentiles.
	Percentiles bool
	// Range is the time to process. The rows to make are all that begin in it, and replace existing
	// ones; what has its time in the range is deleted. Its ends are edges of rows.
	Range
}

// Plan returns the tasks at the time now, in milliseconds since the epoch, in order. late has the
// times of values that came since the previous plan, if rows of these times existed already or the
// values were no longer kept; it may contain more than that, and overlap. If the previous plan was
// not completed, late also has what was late then.
//
// Nothing is deleted before all rows that are made from it exist: do a Task only when those before
// it are done. After each, [Kept.Done] gives what is then kept, so the work can be interrupted and
// continued.
//
// Late values cause their rows to be made again, as long as everything from which those are made
// still exists. Values that come later than that are deleted with the next plan, and change no
// rollup. Rows of tiers that the rule no longer has are left alone; queries can still use them.
func (r *Rule) Plan(k Kept, now int64, late []Range) []Task {
	var tasks []Task
	k.Tiers = slices.Clone(k.Tiers)
	for i := range r.Tiers {
		for _, t := range r.rollUps(k, i, now, late) {
			tasks = append(tasks, t)
			k.Done(t)
		}
	}
	for i := -1; i < len(r.Tiers); i++ {
		if t, ok := r.deletion(k, i, now, late); ok {
			tasks = append(tasks, t)
			k.Done(t)
		}
	}
	return tasks
}

// source returns what a tier can be made of: its step and the time in which it is
// complete.
func (r *Rule) source(k *Kept, tier int, now int64) (step Span, complete Range) {
	if tier == 0 {
		return 0, Range{k.Raw, now - int64(r.Grace)}
	}
	step = r.Tiers[tier-1].Step
	return step, k.Tier(step).Range
}

// rollUps returns the rows of a tier that are to be made: again for late values,
// and for the first time.
func (r *Rule) rollUps(k Kept, tier int, now int64, late []Range) []Task {
	made := k.Tier(r.Tiers[tier].Step)
	step := int64(made.Step)
	source, complete := r.source(&k, tier, now)
	task := Task{Action: RollUp, Step: made.Step, Source: source, Percentiles: r.Tiers[tier].Percentiles}
	from := ceil(complete.From, step) // a row that has lost a part of its values stays as it is
	var tasks []Task
	for _, l := range merged(late, k.Raw, step) {
		task.Range = Range{max(l.From, from, made.From), min(l.To, made.To)}
		if task.From < task.To {
			tasks = append(tasks, task)
		}
	}
	task.Range = Range{max(made.To, from), complete.To - floorMod(complete.To, step)}
	if task.From < task.To {
		tasks = append(tasks, task)
	}
	return tasks
}

// deletion returns what is to be deleted of a tier, or of the values for tier -1.
func (r *Rule) deletion(k Kept, tier int, now int64, late []Range) (Task, bool) {
	keep, from := r.Raw, k.Raw
	task := Task{Action: Delete}
	if tier >= 0 {
		task.Step = r.Tiers[tier].Step
		keep, from = r.Tiers[tier].Keep, k.Tier(task.Step).From
	}
	if keep == 0 {
		return Task{}, false
	}
	until := now - int64(keep)
	if next := tier + 1; next < len(r.Tiers) {
		// Whole rows of what is made of it, and none that are not made yet.
		made := k.Tier(r.Tiers[next].Step)
		until = min(until-floorMod(until, int64(made.Step)), made.To)
	} else if tier >= 0 {
		until -= floorMod(until, int64(task.Step))
	}
	until = max(until, from)
	if tier < 0 && slices.ContainsFunc(late, func(l Range) bool { return l.From < from }) {
		from = 0 // what came too late
	}
	task.Range = Range{from, until}
	return task, from < until
}

// merged returns what is in ranges from a time on, widened to whole steps, in
// order and without overlap.
func merged(ranges []Range, from, step int64) []Range {
	var wide []Range
	for _, x := range ranges {
		if x.From = max(x.From, from); x.From < x.To {
			wide = append(wide, Range{x.From - floorMod(x.From, step), ceil(x.To, step)})
		}
	}
	slices.SortFunc(wide, func(a, b Range) int { return cmp.Compare(a.From, b.From) })
	var out []Range
	for _, x := range wide {
		if n := len(out); n > 0 && x.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, x.To)
		} else {
			out = append(out, x)
		}
	}
	return out
}

// ceil returns the multiple of step at or after ts.
func ceil(ts, step int64) int64 { return ts + floorMod(-ts, step) }
