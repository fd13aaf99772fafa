package mapping

import "time"

// Everything has a limit. What exceeds a limit is refused with an error that names it.
const (
	// MaxNameBytes bounds the name of a mapping.
	MaxNameBytes = 128
	// MaxStatementBytes bounds the text of a statement and its JSON.
	MaxStatementBytes = 64 << 10
	// MaxFields bounds what one statement selects.
	MaxFields = 64
	// MaxGroups bounds the from part of a statement.
	MaxGroups = 64
	// MaxList bounds the entities of one list.
	MaxList = 1000
	// MaxSources bounds the different sources of one field.
	MaxSources = 64
	// MaxPath bounds the members that a path into a JSON value has.
	MaxPath = 8
	// MaxWindowReadings bounds a window, last n or by time. One by time that
	// holds more has no value until it holds less.
	MaxWindowReadings = 10_000
	// MaxWindowBytes bounds the texts in a window of first or last; the others keep no texts. One
	// that holds more has no value until it holds less.
	MaxWindowBytes = 1 << 20
	// MaxWindow bounds a window by time.
	MaxWindow = 366 * 24 * time.Hour
	// MaxMappings bounds the mappings of a service.
	MaxMappings = 10_000
	// MaxAllBytes bounds the memory of all mappings of a service, their texts and what they are
	// compiled to, as it is estimated: some 25 000 mappings of one value.
	MaxAllBytes = 64 << 20
	// MaxValueBytes bounds the memory of what all mappings of a service keep of their sources: the
	// readings in windows, the latest readings, and the members that patterns and relations give to
	// groups, with their texts: some two million readings in windows. What there is no room for is
	// counted, and the values for which it would count are not computed.
	MaxValueBytes = 256 << 20
)
