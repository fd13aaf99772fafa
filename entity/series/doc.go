// Package series is the mathematics of history: what can be computed from numbers in the order of
// their time. It does no I/O, has no clock of its own, and knows nothing about entities and stores.
//
//   - [Query] makes buckets of points: minimum, maximum, average, sum, count, first,
//     last, percentiles and rate, by a fixed step or by the calendar of a time zone
//     ([Grid]), with missing buckets filled in ([Fill]).
//   - [Align] and [Across] put several series side by side and combine them;
//     [Group] pools their points.
//   - [Downsample] leaves as many points as a chart can show.
//   - [Rule] says how long values are kept and which rollups are made of them,
//     [Rule.Plan] what to do when, and [Kept.Sources] what to read for an answer.
//
// Points are read one after the other, and a query holds one bucket of them, so a history may be
// arbitrarily long. What a bucket holds is bounded, too: up to [ExactPercentiles] numbers if
// percentiles are requested, otherwise a few words.
//
// # Numbers
//
// A number is an int64 or a float64 and keeps its kind: the minimum, maximum, first, last and sum
// of int64s is an int64. Sums are exact and rounded once at the end, so an answer does not depend
// on how it was computed: an answer from rollups is identical, bit for bit, to one from the values.
// Percentiles of many numbers are the exception; they come from a sketch with a stated error
// ([PercentileError]). If there is no finite answer there is none, never a NaN.
//
// # Rollups
//
// A [Summary] is the state of a bucket, and the row of a rollup. Consecutive summaries can be
// merged, so rows of a minute can answer for an hour, including the rate: a summary knows how much
// a counter increased within the row, and merging adds the increase from the last point of one row
// to the first of the next. A row has percentiles only if its tier says so.
//
// docs/history.md says the same for users of the HTTP API.
package series
