package server

import (
	"iter"
	"slices"

	"github.com/greenroom-go/greenroom/entity/series"
)

// grouper merges groups of series into one series each.
type grouper struct {
	reader *seriesReader
	across series.Func // "" or "pool": all values are pooled
	names  []string    // of the groups, sorted
	groups map[string][]seriesPlan
	made   int // buckets of members so far
}

// plan plans all members before the first one is read: if one of them widens the range, it becomes
// wider for all, including those planned before.
func (g *grouper) plan(members []member) error {
	g.groups = make(map[string][]seriesPlan)
	for i := range members {
		p, err := g.reader.plan(members[i].id, members[i].key)
		if err != nil {
			return err
		}
		name := string(members[i].group)
		if g.groups[name] == nil {
			g.names = append(g.names, name)
		}
		g.groups[name] = append(g.groups[name], p)
	}
	slices.Sort(g.names)
	for again := true; again; {
		again = false
		for _, plans := range g.groups {
			for i := range plans {
				widened, err := g.reader.find(&plans[i])
				if err != nil {
					return err
				}
				again = again || widened
			}
		}
	}
	return nil
}

// entities returns the number of entities in a group.
func (g *grouper) entities(name string) int {
	ids := make(map[string]struct{})
	for i := range g.groups[name] {
		ids[g.groups[name][i].id] = struct{}{}
	}
	return len(ids)
}

// buckets reads the members of a group, and returns the combined buckets.
func (g *grouper) buckets(name string) (iter.Seq2[series.Bucket, error], error) {
	if g.across != "" && g.across != "pool" {
		return g.combined(name)
	}
	return g.pooled(name)
}

// pooled returns the series of all values of a group.
func (g *grouper) pooled(name string) (iter.Seq2[series.Bucket, error], error) {
	group, err := series.NewGroup(g.reader.query)
	if err != nil {
		return nil, err
	}
	for _, p := range g.groups[name] {
		if err := g.reader.feed(p, group.Member()); err != nil {
			return nil, err
		}
	}
	return group.Buckets(), nil
}

// combined aggregates each member, and combines the buckets with the same time.
func (g *grouper) combined(name string) (iter.Seq2[series.Bucket, error], error) {
	var lines []iter.Seq2[series.Bucket, error]
	for _, p := range g.groups[name] {
		var list []series.Bucket
		a, err := series.NewAggregator(g.reader.query, func(b series.Bucket) error {
			b.Values = slices.Clone(b.Values)
			list = append(list, b)
			if g.made++; g.made > maxAllBuckets {
				return tooManyBuckets(len(g.groups[name]))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if err := g.reader.feed(p, a); err != nil {
			return nil, err
		}
		lines = append(lines, func(yield func(series.Bucket, error) bool) {
			for i := range list {
				if !yield(list[i], nil) {
					return
				}
			}
		})
	}
	return series.Across(g.across, series.Align(lines...)), nil
}
