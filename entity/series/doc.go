// Package series is the mathematics of history: what is made of numbers in the
// order of their time. It does no input or output, keeps no time of its own, and
// knows nothing of entities and stores.
//
//   - [Query] makes buckets of points: minimum, maximum, average, sum, count, first,
//     last, percentiles and rate, by a fixed step or by the calendar of a time zone
//     ([Grid]), with what is missing filled in ([Fill]).
//   - [Align] and [Across] put several series side by side and make one of them;
//     [Group] pools their points.
//   - [Downsample] leaves as many points as a chart can show.
//   - [Rule] says how long values are kept and which rollups are made of them,
//     [Rule.Plan] what is to be done when, and [Kept.Sources] what an answer is to
//     be read from.
//
// Points are read one after the other, and a query holds one bucket of them: a
// history may be as long as it likes. What a bucket holds is bounded too, up to
// [ExactPercentiles] numbers if percentiles are asked for, else a few words.
//
// # Numbers
//
// A number is an int64 or a float64 and stays what it is: the minimum, maximum,
// first, last and sum of int64s is an int64. Sums are exact and rounded once at the
// end, so an answer does not depend on how it was put together: that from rollups
// is the same to the bit as that from the values. Percentiles of many numbers are
// the exception; they come from a sketch with a stated error ([PercentileError]).
// Where there is no finite answer there is none, never a NaN.
//
// # Rollups
//
// A [Summary] is what a bucket is made of, and the row of a rollup. Summaries that
// follow each other can be made one, so that rows of a minute answer for an hour,
// with the rate as well: it is known how much a counter went up within a row, and
// from the last point of one to the first of the next. Percentiles are in a row
// only if its tier says so.
//
// docs/history.md says the same for those who ask.
package series
