// Package value defines the value of the entity runtime: devices measure values, filters compare
// them, mappings compute them and rollups sum them up.
//
// Numbers keep their kind: an int64 is never rounded to a float64 on the way. [Compare] and [Sum]
// are exact across both, so that 2^53+1 and the float 2^53 differ, and a sum does not depend on the
// order of its terms.
//
// The package imports no other package of the module.
package value
