package jetstream

import (
	"testing"

	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/journaltest"
)

func BenchmarkDurable(b *testing.B) {
	journaltest.BenchmarkDurable(b, func(b *testing.B) persist.Journal { return open(b, connect(b, startServer(b)), "") })
}
