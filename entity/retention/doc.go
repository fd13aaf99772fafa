// Package retention applies rules about how long history is kept. A rule, a [series.Rule], says for
// the series of a type or a key how long their values are kept, and which rollups are made of them:
// rows that summarize the values of one step.
//
// A [Retainer] keeps the rules, applies them in the background, and provides the rows of rollups
// for queries of the history. Rules and rows are stored as documents of the entity runtime.
package retention
