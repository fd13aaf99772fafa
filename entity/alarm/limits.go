package alarm

import "time"

// Unless a limit says otherwise, what exceeds it is refused with an error that names it.
const (
	// MaxRules bounds the rules.
	MaxRules = 1000
	// MaxNameBytes bounds the name of a rule and of a webhook.
	MaxNameBytes = 128
	// MaxConditionBytes bounds each condition of a rule.
	MaxConditionBytes = 4096
	// MaxMessageBytes bounds the message of a rule, and MaxNoteBytes what an operator notes.
	MaxMessageBytes = 1024
	MaxNoteBytes    = 1024
	// MaxRuleKeys bounds the keys that the conditions of a rule read.
	MaxRuleKeys = 64
	// MaxRuleWebhooks bounds the webhooks of a rule.
	MaxRuleWebhooks = 8
	// MaxWebhooks bounds the webhooks, and MaxURLBytes the URL of one.
	MaxWebhooks = 100
	MaxURLBytes = 2048
	// MaxQueued bounds the deliveries that wait for a webhook; further ones become dead letters at
	// once. MaxDead bounds its dead letters; beyond that, each further one is lost and counted.
	// MaxAttempts is how often a delivery is tried, over about two and a half hours.
	MaxQueued   = 10_000
	MaxDead     = 10_000
	MaxAttempts = 12
	// MaxFor bounds how long a condition has to hold, and MaxShelf how long an alarm is
	// shelved.
	MaxFor   = 31 * 24 * time.Hour
	MaxShelf = 31 * 24 * time.Hour
	// MaxLateness is how old a late reading may be and still change alarms. Older ones are only in
	// the history, and counted.
	MaxLateness = 31 * 24 * time.Hour
	// MaxAhead is how far ahead of the server's clock a reading may be and still be judged at once.
	// A reading that is further ahead waits until it is within the bound.
	MaxAhead = time.Minute
	// MaxActive bounds the pairs of rule and entity whose condition is met, that are shelved or
	// that have late readings: each takes about 300 bytes of memory. Further pairs are counted, and
	// followed from the next reading of the entity once there is room. It also bounds the entities
	// whose readings wait for their time.
	MaxActive = 500_000
	// MaxAwaited bounds the pairs of entity and clock-dependent rule that wait for the time at
	// which the answer changes: each takes about 200 bytes of memory. Further pairs are counted,
	// and evaluated with the next change of the entity, or once a tenth is free.
	MaxAwaited = 2_000_000
	// MaxTransitions bounds the history of one alarm: the first one and the last ones.
	MaxTransitions = 100
	// MaxValueBytes bounds each value that is kept with an alarm, as JSON: for a larger one only
	// the time is kept.
	MaxValueBytes = 1024
	// MaxEvents bounds the events from which streams can resume.
	MaxEvents = 100_000
	// MaxPage bounds the alarms of a page, MaxPageBytes about their size, and MaxExamined how many
	// are examined for it.
	MaxPage      = 1000
	MaxPageBytes = 1 << 20
	MaxExamined  = 10_000
	// DefaultRetention is how long a cleared alarm is kept.
	DefaultRetention = 90 * 24 * time.Hour
	// DefaultCacheBytes bounds the memory for cached values of entities without alarms.
	DefaultCacheBytes = 128 << 20
)
