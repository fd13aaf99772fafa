package mqtt

import (
	"testing"

	"github.com/greenroom-go/greenroom/server/access"
)

// A template may be deleted between a message and the time at which it is forwarded.
func TestAMessageWhoseTopicNobodyHasIsSeenByThoseWhoMayReadAllOnly(t *testing.T) {
	t.Parallel()
	b := &Broker{}
	stranger := &conn{who: &access.Principal{}}
	if b.sees(stranger, "gone/lamp", false) {
		t.Error("a client without a right sees it")
	}
	if !b.maySee(stranger, "gone/lamp") {
		t.Error("a client may not subscribe to what nobody has")
	}
	anybody, err := access.Everybody().Login(t.Context(), &access.Attempt{})
	if err != nil {
		t.Fatal(err)
	}
	if !b.sees(&conn{who: anybody}, "gone/lamp", false) {
		t.Error("a client that may read all does not see it")
	}
}

// What is not refused is not shown, and may wait for those before it.
func TestACommittedMessageKeepsNoPayloadToBeShown(t *testing.T) {
	t.Parallel()
	c := &conn{broker: &Broker{}}
	first, second := &delivery{conn: c, excerpt: []byte("1")}, &delivery{conn: c, excerpt: []byte("2")}
	c.acks.conn = c
	c.acks.push(first)
	c.acks.push(second)
	second.settle(nil)
	if second.excerpt != nil {
		t.Errorf("it keeps %q", second.excerpt)
	}
}
