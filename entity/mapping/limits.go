package mapping

import "time"

// Everything has a limit. What exceeds a limit is refused with an error that names it.
const (
	// MaxNameBytes bounds the name of a mapping.
	MaxNameBytes = 128
	// MaxStatementBytes bounds the text of a statement and its JSON.
	MaxStatementBytes = 64 << 10
	// MaxFields bounds the fields of one statement.
	MaxFields = 64
	// MaxGroups bounds the from part of a statement.
	MaxGroups = 64
	// MaxList bounds the entities of one list.
	MaxList = 1000
	// MaxSources bounds the different sources of one field.
	MaxSources = 64
	// MaxPath bounds the members that a path into a JSON value has.
	MaxPath = 8
	// MaxWindowReadings bounds a window, last n or by time. A window by time that holds more has no
	// value until it holds less.
	MaxWindowReadings = 10_000
	// MaxWindowBytes bounds the texts in a window of first or last; the other functions keep no
	// texts. A window that holds more has no value until it holds less.
	MaxWindowBytes = 1 << 20
	// MaxWindow bounds a window by time.
	MaxWindow = 366 * 24 * time.Hour
	// MaxMappings bounds the mappings of a service.
	MaxMappings = 10_000
	// MaxAllBytes bounds the estimated memory of all mappings of a service, with their texts and
	// compiled forms: some 25 000 mappings of one value.
	MaxAllBytes = 64 << 20
	// MaxValueBytes bounds the memory that all mappings of a service use for their sources: the
	// readings in windows, the latest readings, and the members that patterns and relations give to
	// groups, with their texts. That is some two million readings in windows. Anything for which
	// there is no room is counted, and values that depend on it are not computed.
	MaxValueBytes = 256 << 20
)
