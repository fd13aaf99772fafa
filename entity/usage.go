package entity

// Usage says what a store contains and what that takes. The zero value is that of an empty store.
type Usage struct {
	// File is the size of its files or tables in bytes, and Free how much of that is known to be free
	// for what comes. Log is the size of the change log.
	File, Free, Log int64
	// Values counts the values of the history in the tables, and Sealed how many of them are in
	// Blocks, which take SealedBytes, without the tables around them. A value that a later one
	// in a row has replaced is counted until that is folded in.
	Values, Sealed, Blocks, SealedBytes int64
	// Keys and Types say it for each key and each type of entity, by name. The times that
	// blocks share are in SealedBytes alone.
	Keys, Types []PartUsage
}

// PartUsage is the part of a key, or of a type of entity: the name is empty for entities without one.
type PartUsage struct {
	Name                        string
	Values, Sealed, SealedBytes int64
}
