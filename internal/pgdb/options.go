package pgdb

import (
	"log/slog"
	"time"
)

// Default fills in an option that was left out.
func Default(option *time.Duration, value time.Duration) {
	if *option <= 0 {
		*option = value
	}
}

// DefaultLogger fills in a logger that was left out.
func DefaultLogger(log **slog.Logger) {
	if *log == nil {
		*log = slog.Default()
	}
}
