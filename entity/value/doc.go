// Package value has the one value of the entity runtime: what a device measures,
// what a filter compares, what a mapping computes and what a rollup sums up.
//
// Numbers keep what they are: an int64 is never rounded to a float64 on the way.
// [Compare] and [Sum] are exact across both, so that 2^53+1 and the float 2^53
// differ, and a sum does not depend on the order of its terms.
//
// The package imports no other package of the module.
package value
