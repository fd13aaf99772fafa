package entity

import "time"

// Everything has a limit. What exceeds a limit is refused with an error that names the limit;
// nothing is truncated silently.
const (
	// MaxIDBytes bounds the id of an entity.
	MaxIDBytes = 256
	// MaxKeyBytes bounds the name of a key.
	MaxKeyBytes = 256
	// MaxPayloadBytes bounds what ParseReadings reads.
	MaxPayloadBytes = 1 << 20
	// MaxReadings bounds the readings of one payload or one Ingest.
	MaxReadings = 10_000
	// MaxReadingKeys bounds the keys of one reading.
	MaxReadingKeys = 1024
	// MaxEntityKeys bounds the keys an entity has over its life.
	MaxEntityKeys = 4096
	// MaxKeys is the default of Config.Keys, the distinct names of keys of all entities together.
	// Each key is kept in memory once, and a device that invents a key for each reading must not
	// fill the memory: see Once.By.
	MaxKeys = 1 << 20
	// MaxTextBytes bounds a string value and a JSON value.
	MaxTextBytes = 64 << 10
	// MaxSourceBytes bounds Origin.Source, and MaxEntitySources how many sources an
	// entity remembers.
	MaxSourceBytes   = 256
	MaxEntitySources = 4096
	// MaxPathBytes bounds the path of an attribute, MaxAttributes the leaves of all
	// sections of an entity together, MaxAttributeBytes their paths and values, and
	// MaxPatchBytes a patch.
	MaxPathBytes      = 1024
	MaxAttributes     = 4096
	MaxAttributeBytes = 4 << 20
	MaxPatchBytes     = 1 << 20
	// MaxTypeBytes bounds the name of a type of entity or of relation.
	MaxTypeBytes = 256
	// MaxRelations bounds the edges from one entity. Those to it are not bounded.
	MaxRelations = 100_000
	// MaxDocIDBytes bounds the kind and the id of a document, and MaxDocBytes its
	// body.
	MaxDocIDBytes = 256
	MaxDocBytes   = 4 << 20
	// MaxItemKeyBytes bounds the key of an item, MaxItemBytes its body, and MaxItems how
	// many are asked for at once.
	MaxItemKeyBytes = 1024
	MaxItemBytes    = 1 << 20
	MaxItems        = 10_000
	// MaxDepth bounds the nesting of a JSON value: [[1]] has the depth 2.
	MaxDepth = 32
	// MinTS and MaxTS bound the time of a reading, in milliseconds since the epoch: from 1970 to
	// the end of the year 9999. A time in microseconds or nanoseconds is out of range, which
	// reveals the mistake.
	MinTS int64 = 0
	MaxTS int64 = 253_402_300_799_999
	// MaxPageLimit bounds Page.Limit, and MaxHistoryLimit bounds
	// HistoryQuery.Limit.
	MaxPageLimit    = 1000
	MaxHistoryLimit = 100_000
	// MaxHistoryBytes bounds the memory of one page of a history: each of 100 000 values may be a
	// long text.
	MaxHistoryBytes = 16 << 20
	// MaxSearchBytes bounds Page.Search.
	MaxSearchBytes = 256
	// MaxStreamEntities bounds ChangesQuery.Entities.
	MaxStreamEntities = 1000
	// MaxStreamBytes bounds the changes that a subscription holds for its reader. Subscriptions
	// share the memory of the changes that they hold.
	MaxStreamBytes = 32 << 20
	// MaxOpenCommands bounds the commands of an entity that have not ended, and MaxOpenCommandBytes
	// the size of their texts together. MaxEndedCommands bounds the ended commands that are kept:
	// when there are more, those that ended first are deleted.
	MaxOpenCommands     = 1000
	MaxOpenCommandBytes = 4 << 20
	MaxEndedCommands    = 1000
	// MaxCommandKeyBytes bounds Command.Key, MaxCommandByBytes Command.By, and MaxCommandErrorBytes
	// Command.Error.
	MaxCommandKeyBytes   = 256
	MaxCommandByBytes    = 256
	MaxCommandErrorBytes = 4096
	// MaxCommandExpiry bounds the time until a command is delivered, and MaxCommandTimeout the time
	// from its delivery to its answer.
	MaxCommandExpiry      = 366 * 24 * time.Hour
	DefaultCommandExpiry  = 7 * 24 * time.Hour
	MaxCommandTimeout     = 31 * 24 * time.Hour
	DefaultCommandTimeout = time.Minute
	// MaxReceivers bounds the receivers of the commands of one entity.
	MaxReceivers = 64
	// MaxPresent bounds the entities whose devices are online or have a connection, at about
	// 200 bytes each. Others have no presence.
	MaxPresent = 1 << 22
	// SeenEvery is how often the time at which a device was last heard from is written to the
	// store. After a crash Presence.Seen may be that much too early.
	SeenEvery = 5 * time.Minute
)
