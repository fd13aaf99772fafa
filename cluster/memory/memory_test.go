package memory_test

import (
	"testing"

	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/enginetest"
	"github.com/greenroom-go/greenroom/cluster/memory"
)

func TestConformance(t *testing.T) {
	enginetest.Run(t, func(testing.TB) (a, b cluster.Engine) {
		e := new(memory.Engine)
		return e, e
	})
}
