package storetest

import (
	"context"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

func endedContext(t *testing.T, k *kit) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := k.batch(given{id: "a", seq: 1, ts: 1, values: one("t", value.Int(1))})
	if err := k.store.Commit(ctx, b); err == nil {
		t.Fatal("a commit whose context had ended succeeded")
	}
	if info := k.store.Info(); info.LastChange != 0 || info.Entities != 0 {
		t.Errorf("it left %+v", info)
	}
	k.commit(b) // and can be tried again
	if got := k.load("a"); got.Seq != 1 {
		t.Errorf("loaded %+v", got)
	}
}
