package series

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

const (
	second = 1000
	minute = 60 * second
	hour   = 60 * minute
)

// keeper does the tasks of plans on values and rows in memory, as a store would.
type keeper struct {
	t      *testing.T
	rule   Rule
	kept   Kept
	values []Point // those that are still there
	rows   map[Span]map[int64]*Summary
	all    []Point // what every answer must be made of: all that did not come too late
	late   []Range
}

func newKeeper(t *testing.T, rule Rule) *keeper {
	t.Helper()
	if err := rule.Check(); err != nil {
		t.Fatal(err)
	}
	return &keeper{t: t, rule: rule, rows: make(map[Span]map[int64]*Summary)}
}

func insert(points []Point, p Point) []Point {
	i, there := slices.BinarySearchFunc(points, p.TS, func(q Point, ts int64) int { return cmp.Compare(q.TS, ts) })
	if there {
		points[i] = p
		return points
	}
	return slices.Insert(points, i, p)
}

// ingest takes a value, whenever it was measured.
func (k *keeper) ingest(p Point) {
	k.values = insert(k.values, p)
	if p.TS >= k.kept.Raw {
		k.all = insert(k.all, p)
	}
	if p.TS < k.kept.Raw || len(k.rule.Tiers) > 0 && p.TS < k.kept.Tier(k.rule.Tiers[0].Step).To {
		k.late = append(k.late, Range{p.TS, p.TS + 1})
	}
}

// work does what is to be done, or the first few tasks of it.
func (k *keeper) work(now int64, most int) {
	tasks := k.rule.Plan(k.kept, now, k.late)
	for i, task := range tasks {
		if i == most {
			return
		}
		k.do(task)
		k.kept.Done(task)
	}
	k.late = nil
}

func (k *keeper) do(task Task) {
	in := func(ts int64) bool { return ts >= task.From && ts < task.To }
	switch {
	case task.Action == Delete && task.Step == 0:
		k.checkRolledUp(task)
		k.values = slices.DeleteFunc(k.values, func(p Point) bool { return in(p.TS) })
	case task.Action == Delete:
		for start := range k.rows[task.Step] {
			if in(start) {
				delete(k.rows[task.Step], start)
			}
		}
	default:
		k.rollUp(task, in)
	}
}

func (k *keeper) rollUp(task Task, in func(int64) bool) {
	k.t.Helper()
	step := int64(task.Step)
	if floorMod(task.From, step) != 0 || floorMod(task.To, step) != 0 {
		k.t.Fatalf("%+v cuts rows", task)
	}
	if k.rows[task.Step] == nil {
		k.rows[task.Step] = make(map[int64]*Summary)
	}
	made := k.rows[task.Step]
	for start := range made {
		if in(start) {
			delete(made, start)
		}
	}
	row := func(ts int64) *Summary {
		start := ts - floorMod(ts, step)
		if made[start] == nil {
			made[start] = NewSummary(task.Percentiles)
		}
		return made[start]
	}
	if task.Source == 0 {
		for _, p := range k.values {
			if in(p.TS) {
				_ = row(p.TS).Add(p)
			}
		}
		return
	}
	for _, start := range k.starts(task.Source) {
		if in(start) {
			_ = row(start).Append(k.rows[task.Source][start])
		}
	}
}

func (k *keeper) starts(step Span) []int64 {
	var list []int64
	for start := range k.rows[step] {
		list = append(list, start)
	}
	slices.Sort(list)
	return list
}

// checkRolledUp looks whether each value that is about to be deleted is in a row,
// unless it came too late for that.
func (k *keeper) checkRolledUp(task Task) {
	k.t.Helper()
	if len(k.rule.Tiers) == 0 {
		return
	}
	step := k.rule.Tiers[0].Step
	for _, p := range k.values {
		if p.TS < task.From || p.TS >= task.To || p.TS < k.kept.Raw {
			continue
		}
		s := k.rows[step][p.TS-floorMod(p.TS, int64(step))]
		if s == nil || s.First.TS > p.TS || s.Last.TS < p.TS {
			k.t.Fatalf("the value of %d is deleted and in no row", p.TS)
		}
	}
}

// answer answers a query from what is kept, and returns the range that the answer
// is about.
func (k *keeper) answer(q Query) ([]Bucket, Query, error) {
	sources, err := k.kept.Sources(q.Grid, q.From, q.To, needs(q.Funcs)&keepPercentiles != 0)
	if err != nil {
		return nil, q, err
	}
	if n := len(sources); n > 0 {
		q.From = min(q.From, sources[0].From)
		if q.To != 0 {
			q.To = max(q.To, sources[n-1].To)
		}
	}
	var got []Bucket
	a, err := NewAggregator(q, func(b Bucket) error { got = append(got, b); return nil })
	if err != nil {
		return nil, q, err
	}
	for _, s := range sources {
		if s.Step == 0 {
			for _, p := range k.values {
				if p.TS >= s.From && p.TS < s.To {
					err = errors.Join(err, a.Add(p))
				}
			}
			continue
		}
		for _, start := range k.starts(s.Step) {
			if start >= s.From && start < s.To {
				err = errors.Join(err, a.AddRow(Row{start, start + int64(s.Step), k.rows[s.Step][start]}))
			}
		}
	}
	return got, q, errors.Join(err, a.Close())
}

// randomRule makes a rule whose last tier is kept for ever, and each tier long
// enough for late values to reach the next.
func randomRule(r *rand.Rand) Rule {
	rule := Rule{Raw: Span(20+r.IntN(60)) * minute, Grace: Span(r.IntN(120)) * second}
	step := Span(1+r.IntN(2)) * minute
	keep := rule.Raw
	for i := range 1 + r.IntN(3) {
		if i > 0 {
			step *= Span(2 + r.IntN(4))
		}
		keep += 4*step + Span(r.IntN(60))*minute
		rule.Tiers = append(rule.Tiers, Tier{Step: step, Keep: keep + 60*minute, Percentiles: true})
	}
	rule.Tiers[len(rule.Tiers)-1].Keep = 0
	return rule
}

func TestWhatIsKeptAnswersAsIfAllWere(t *testing.T) {
	answered := 0
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 14))
		k := newKeeper(t, randomRule(r))
		now := int64(100_000_000)
		for range 80 {
			for range r.IntN(20) {
				now += 1 + r.Int64N(40_000)
				ts := now
				switch r.IntN(10) {
				case 0:
					ts -= r.Int64N(10 * minute)
				case 1:
					ts -= r.Int64N(3 * hour) // some of it later than what is kept
				}
				k.ingest(Point{ts, value.Int(r.Int64N(1000))})
			}
			k.work(now, 1+r.IntN(20))
		}
		k.work(now, 1000)
		for range 20 {
			q := Query{Funcs: []Func{Count, Sum, Min, Max, First, Last, Rate}, Grid: mustGrid(t, []string{"5m", "10m", "1h", "hour", "6m", ""}[r.IntN(6)], "UTC")}
			if q.From = r.Int64N(now); r.IntN(3) == 0 {
				q.From = now - r.Int64N(2*hour)
			}
			q.To = q.From + r.Int64N(now-q.From) + 1
			got, asked, err := k.answer(q)
			if errors.Is(err, ErrTooFine) {
				k.checkTooFine(q)
				continue
			}
			if err != nil {
				t.Fatalf("seed %d: %+v: %v", seed, q, err)
			}
			answered++
			want := modelAnswer(asked, slices.DeleteFunc(slices.Clone(k.all), func(p Point) bool { return p.TS < asked.From }))
			compareAnswers(t, fmt.Sprintf("seed %d: %+v asked as %d to %d of %+v", seed, q, asked.From, asked.To, k.kept), q.Funcs, got, want)
		}
	}
	if answered < 150 {
		t.Errorf("only %d of 400 queries were answered", answered)
	}
}

// checkTooFine looks whether it was right to say that a grid is too fine.
func (k *keeper) checkTooFine(q Query) {
	k.t.Helper()
	if q.From >= k.kept.Raw {
		k.t.Errorf("there are values from %d on, and from %d is too fine", k.kept.Raw, q.From)
	}
	for _, tier := range k.kept.Tiers {
		if tier.From <= q.From-floorMod(q.From, int64(tier.Step)) && q.Grid.aligned(int64(tier.Step), q.From, q.To) {
			k.t.Errorf("rows of %v cover %d to %d and fit", tier.Step, tier.From, tier.To)
		}
	}
}

// tasks writes a plan in a line.
func tasks(list []Task) string {
	var s []string
	for _, t := range list {
		s = append(s, fmt.Sprintf("%s %v %d-%d", t.Action, t.Step, t.From/minute, t.To/minute))
	}
	return fmt.Sprint(s)
}

func TestPlan(t *testing.T) {
	rule := Rule{Raw: 60 * minute, Grace: minute, Tiers: []Tier{{Step: 5 * minute, Keep: 120 * minute}, {Step: 30 * minute}}}
	if err := rule.Check(); err != nil {
		t.Fatal(err)
	}
	kept := Kept{Raw: 940 * minute, Tiers: []KeptTier{{Step: 5 * minute, Range: Range{870 * minute, 995 * minute}}, {Step: 30 * minute, Range: Range{0, 990 * minute}}}}
	for name, x := range map[string]struct {
		kept Kept
		now  int64
		late []Range
		want string
	}{
		"at first": {
			Kept{},
			1000 * minute, nil,
			"[roll up 5m 0-995 roll up 30m 0-990 delete 0s 0-940 delete 5m 0-870]",
		},
		"nothing to do":            {kept, 1000 * minute, nil, "[]"},
		"before the grace is over": {kept, 1000*minute + 59*second, nil, "[]"},
		"after it":                 {kept, 1001 * minute, nil, "[roll up 5m 995-1000]"},
		"after a while":            {kept, 1032 * minute, nil, "[roll up 5m 995-1030 roll up 30m 990-1020 delete 0s 940-970 delete 5m 870-900]"},
		"a late value": {
			kept, 1000 * minute,
			[]Range{{950 * minute, 950*minute + 1}},
			"[roll up 5m 950-955 roll up 30m 930-960]",
		},
		"late values": {
			kept, 1000 * minute,
			[]Range{{984 * minute, 986 * minute}, {981 * minute, 981*minute + 1}, {986 * minute, 987 * minute}},
			"[roll up 5m 980-990 roll up 30m 960-990]",
		},
		"a value that is not late": {kept, 1000 * minute, []Range{{999 * minute, 999*minute + 1}}, "[]"},
		"a value too late":         {kept, 1000 * minute, []Range{{880 * minute, 880*minute + 1}}, "[delete 0s 0-940]"},
		"and one before all":       {kept, 1000 * minute, []Range{{5 * minute, 5*minute + 1}}, "[delete 0s 0-940]"},
		"an empty range":           {kept, 1000 * minute, []Range{{5 * minute, 5 * minute}}, "[delete 0s 0-940]"},
	} {
		if got := tasks(rule.Plan(x.kept, x.now, x.late)); got != x.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, x.want)
		}
	}
}

func TestPlanOfASimpleRule(t *testing.T) {
	forever := Rule{}
	if got := forever.Plan(Kept{}, 1e12, nil); len(got) != 0 {
		t.Errorf("kept for ever: %s", tasks(got))
	}
	week := Rule{Raw: 7 * dayMillis}
	if got := tasks(week.Plan(Kept{}, 1e12, nil)); got != "[delete 0s 0-16656586]" {
		t.Errorf("kept for a week: %s", got)
	}
	// A tier that comes later begins where there still are values.
	late := Rule{Raw: 60 * minute, Tiers: []Tier{{Step: 7 * minute}}}
	if got := tasks(late.Plan(Kept{Raw: 950 * minute}, 1000*minute, nil)); got != "[roll up 7m 952-994]" {
		t.Errorf("a tier that comes later: %s", got)
	}
	// Nothing is deleted that is in no row yet, even by a rule that nobody checked.
	unchecked := Rule{Raw: minute, Grace: hour, Tiers: []Tier{{Step: 30 * minute}}}
	if got := tasks(unchecked.Plan(Kept{}, 1000*minute, nil)); got != "[roll up 30m 0-930 delete 0s 0-930]" {
		t.Errorf("a rule that nobody checked: %s", got)
	}
	// Rows that were deleted are not made again.
	shorter := Kept{Tiers: []KeptTier{{Step: 5 * minute, Range: Range{900 * minute, 1000 * minute}}}}
	rule := Rule{Tiers: []Tier{{Step: 5 * minute}}}
	if got := tasks(rule.Plan(shorter, 1000*minute, []Range{{895 * minute, 902 * minute}})); got != "[roll up 5m 900-905]" {
		t.Errorf("rows that were deleted: %s", got)
	}
	// A tier that is no more is left alone.
	gone := Kept{Raw: 940 * minute, Tiers: []KeptTier{{Step: minute, Range: Range{0, 940 * minute}}}}
	if got := tasks(week.Plan(gone, 1000*minute, nil)); got != "[]" {
		t.Errorf("a tier that is no more: %s", got)
	}
}

func TestSources(t *testing.T) {
	kept := Kept{Raw: 940 * minute, Tiers: []KeptTier{
		{Step: 5 * minute, Range: Range{870 * minute, 995 * minute}, Percentiles: true},
		{Step: 30 * minute, Range: Range{60 * minute, 990 * minute}},
	}}
	for name, x := range map[string]struct {
		grid        string
		from, to    int64
		percentiles bool
		want        string
		err         error
	}{
		"recent":                   {"1m", 950, 1000, false, "[0s:950-1000]", nil},
		"fine and too old":         {"1m", 900, 1000, false, "", ErrTooFine},
		"rows and values":          {"5m", 900, 1000, false, "[5m:900-995 0s:995-1000]", nil},
		"long rows as far as good": {"30m", 900, 1000, false, "[30m:900-990 5m:990-995 0s:995-1000]", nil},
		"a start between rows":     {"30m", 943, 1000, false, "[0s:943-945 5m:945-960 30m:960-990 5m:990-995 0s:995-1000]", nil},
		"an old start is widened":  {"30m", 905, 1000, false, "[5m:905-930 30m:930-990 5m:990-995 0s:995-1000]", nil},
		"a very old one too":       {"30m", 100, 200, false, "[30m:90-210]", nil},
		"old and fine":             {"5m", 100, 1000, false, "", ErrTooFine},
		"older than anything":      {"30m", 10, 120, false, "[30m:60-120]", nil},
		"only that":                {"30m", 10, 50, false, "[]", nil},
		"without ends":             {"30m", 0, 0, false, "[30m:60-990 5m:990-995 0s:995-153722867280912]", nil},
		"percentiles":              {"30m", 900, 1000, true, "[5m:900-995 0s:995-1000]", nil},
		"percentiles too old":      {"30m", 100, 1000, true, "", ErrNoPercentiles},
		"one bucket":               {"", 943, 1000, false, "[0s:943-945 5m:945-960 30m:960-990 5m:990-995 0s:995-1000]", nil},
		"nothing asked":            {"30m", 950, 950, false, "[]", nil},
	} {
		list, err := kept.Sources(mustGrid(t, x.grid, "UTC"), x.from*minute, x.to*minute, x.percentiles)
		s := []string{}
		for _, source := range list {
			s = append(s, fmt.Sprintf("%v:%d-%d", source.Step, source.From/minute, source.To/minute))
		}
		if !errors.Is(err, x.err) || err == nil && fmt.Sprint(s) != x.want {
			t.Errorf("%s: %v, %v; want %s", name, s, err, x.want)
		}
		if errors.Is(x.err, ErrTooFine) && !strings.Contains(err.Error(), "the step must be a multiple of [") {
			t.Errorf("%s: %v does not say which step may be", name, err)
		}
	}
	all := Kept{}
	if list, err := all.Sources(mustGrid(t, "7s", "UTC"), 5, 100, true); err != nil || fmt.Sprint(list) != "[{0s {5 100}}]" {
		t.Errorf("without rollups: %v, %v", list, err)
	}
}

func TestRulesThatCannotBeAreRefused(t *testing.T) {
	for say, r := range map[string]Rule{
		"raw -1ms":           {Raw: -1},
		"grace without":      {Grace: 1},
		"tiers; at most":     {Tiers: make([]Tier, MaxTiers+1)},
		"step 0s":            {Tiers: []Tier{{}}},
		"not a multiple":     {Tiers: []Tier{{Step: 4}, {Step: 6}}},
		"multiple of the":    {Tiers: []Tier{{Step: 4}, {Step: 4}}},
		"less long":          {Tiers: []Tier{{Step: 4, Keep: 1000}}},
		"not as long, 1s":    {Raw: 1000, Tiers: []Tier{{Step: 4, Keep: 999}}},
		"less than its step": {Raw: 1000, Tiers: []Tier{{Step: 1001}}},
		"the grace of 2ms":   {Raw: 1000, Grace: 2, Tiers: []Tier{{Step: 999}}},
		"percentiles and":    {Tiers: []Tier{{Step: 4}, {Step: 8, Percentiles: true}}},
	} {
		err := r.Check()
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: error %v", say, err)
		}
	}
	same := Policy{{Type: "meter", Key: "power"}, {Key: "power"}, {Type: "meter", Key: "power", Raw: 5}}
	if err := same.Check(); !errors.Is(err, ErrInvalid) {
		t.Errorf("two rules about the same: %v", err)
	}
	if err := (Policy{{Type: "a"}, {Raw: -1}}).Check(); !errors.Is(err, ErrInvalid) {
		t.Errorf("a rule that cannot be among others: %v", err)
	}
}

func TestTheNearestRuleHolds(t *testing.T) {
	p := Policy{{Raw: 1}, {Type: "base", Raw: 2}, {Type: "meter", Raw: 3}, {Key: "power", Raw: 4}, {Type: "base", Key: "power", Raw: 5}, {Type: "meter", Key: "power", Raw: 6}}
	for _, x := range []struct {
		types []string
		key   string
		want  Span
	}{
		{[]string{"meter", "base"}, "power", 6},
		{[]string{"other", "base"}, "power", 5},
		{[]string{"other"}, "power", 4},
		{nil, "power", 4},
		{[]string{"meter", "base"}, "heat", 3},
		{[]string{"other", "base"}, "heat", 2},
		{nil, "heat", 1},
	} {
		if got := p.For(x.types, x.key); got.Raw != x.want {
			t.Errorf("%s of %v has the rule %+v", x.key, x.types, got)
		}
	}
	if got := (Policy{}).For([]string{"a"}, "b"); got.Raw != 0 || got.Tiers != nil {
		t.Errorf("without rules: %+v", got)
	}
}

func TestRulesAreReadAsJSON(t *testing.T) {
	const text = `{"type":"meter","key":"power","raw":"7d","grace":"1m30s","tiers":[{"step":"5m","keep":"90d12h","percentiles":true},{"step":"1h"}]}`
	var r Rule
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	if r.Raw != 7*dayMillis || r.Grace != 90*second || r.Tiers[0].Keep != 90*dayMillis+12*hour || r.Tiers[1].Keep != 0 {
		t.Errorf("it is %+v", r)
	}
	if again, err := json.Marshal(&r); err != nil || string(again) != text {
		t.Errorf("it is written %s, %v", again, err)
	}
}

func TestSpans(t *testing.T) {
	for text, want := range map[string]string{"0s": "0s", "0": "0s", "90d": "90d", "36h": "1d12h", "1h30m": "1h30m", "90s": "1m30s", "1d1ms": "1d1ms", "1.5s": "1s500ms", "1.5d": "1d12h", "1w": "7d", "60m": "1h", "24h": "1d", "0d": "0s", "1d0h5s": "1d5s"} {
		if s, err := ParseSpan(text); err != nil || s.String() != want {
			t.Errorf("%s is %v, %v; want %s", text, s, err, want)
		}
	}
	for _, text := range []string{"", "d", "-1d", "-5m", "1us", "5", "1d-5m", "99999999999d", "1dd", "d5m"} {
		if s, err := ParseSpan(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q is %v, %v", text, s, err)
		}
	}
}
