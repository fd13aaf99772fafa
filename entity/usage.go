package entity

// Usage says what a store contains and how much space that takes. The zero value is that of an
// empty store.
type Usage struct {
	// File is the size of its files or tables in bytes, and Free how much of that is known to be
	// reusable. Log is the size of the change log.
	File, Free, Log int64
	// Values counts the values of the history in the tables. Sealed is how many of them are in
	// blocks, Blocks the number of these, and SealedBytes their size without the tables around
	// them. A value that a later row has replaced is counted until that row is folded in.
	Values, Sealed, Blocks, SealedBytes int64
	// Keys and Types give the part of each key and of each type of entity, by name. The times that
	// blocks share are counted in SealedBytes alone.
	Keys, Types []PartUsage
}

// PartUsage is the part of a key or of a type of entity. The name is empty for entities without a
// type.
type PartUsage struct {
	Name                        string
	Values, Sealed, SealedBytes int64
}
