package remote_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/remote"
)

// What has gone wrong on the wires of other actor runtimes, and the tests that it does not here. Those
// of remote/internal/session begin with s:, those of remote/internal/transport with t:, those of
// remote/internal/wire with w:.
//
//	ergo         a pool dials anew and writes to the dead socket     t:TestWhatACutConnectionHeldIsSentAgain, TestSimNodesKeepTheirPromises
//	ergo         no order for one PID of 255                         t:TestWhatManySendToManyArrivesInOrder
//	ergo         two that dial each other                            t:TestNodesThatDialEachOtherHaveOneSession, s:TestAnOvertakenHelloChangesNothing
//	ergo         a reference to a buffer that was given back         s:TestWhatIsBeingWrittenIsNotLetGo, s:TestSendingAndReceivingAllocateNothing
//	ergo         a sender that waits in a write without end          s:TestMessagesOverflowAndSignalsHaveAReserve, t:TestAReaderThatWaitsMakesSendersWait
//	ergo         queues without a bound                              s:TestTextsOfAPeerAreBounded, s:TestHostileBytesDoNotMakeMuchMemory, actor:TestANodeMayHaveSoManyWatchesAndLinksHere
//	Proto.Actor  what cannot be decoded ends the stream for all      TestWhatANodeDoesNotKnowIsADeadLetterThere, TestADecoderThatPanicsHurtsItsMessageOnly
//	Proto.Actor  indexes from the wire that nobody checks            s:TestAPeerThatBreaksTheProtocolLosesItsSession, s:FuzzHostilePeer
//	Proto.Actor  a request of a peer that crashes the process        t:TestAPanicOfAHandlerEndsItsSessionOnly
//	Proto.Actor  a batch that fails is lost in silence               s:TestSessionKeepsItsPromisesUnderFaults, TestSimNodesKeepTheirPromises
//	Proto.Actor  an actor that sleeps between dials                  t:TestAPeerThatDoesNotAnswerHoldsUpNoOther, t:TestDialsBackOff
//	Proto.Actor  an address that is blocked for good                 TestAnEarlierIncarnationIsLostWhenALaterOneIsFound
//	Proto.Actor  16 MB for each peer in advance                      w:TestASplitterDoesNotAllocateWhatIsOnlyAnnounced
//	Hollywood    a message without sender has the batch's first      s:TestAMessageWithoutSenderGetsNobodysElse
//	Hollywood    what cannot be encoded ends the process             TestErrorsKeepTheirMeaningBetweenNodes
//	Hollywood    what cannot be encoded arrives as an empty message  TestWhatCannotBeEncodedLeavesNoGap
//	Hollywood    a router that dials                                 t:TestAPeerThatDoesNotAnswerHoldsUpNoOther
//	goakt        the answer to another ask                           s:TestAnAnswerReachesItsAskOnly, s:TestAnAskIsAnsweredOnceAndCanceledWhileItIsOpen
//	all          a node that leaves loses its mail                   t:TestANodeThatLeavesLosesNothing
//	gRPC, dRPC   a flush for each message                            bench -run remote

// odd is a message that cannot be encoded or decoded if it says so.
type odd struct{ say string }

func (odd) msg() {}

// MarshalBinary implements encoding.BinaryMarshaler.
func (o odd) MarshalBinary() ([]byte, error) {
	switch o.say {
	case "error":
		return nil, errors.New("not encoded")
	case "panic":
		panic("not encoded")
	}
	return []byte(o.say), nil
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (o *odd) UnmarshalBinary(data []byte) error {
	if o.say = string(data); o.say == "there" {
		panic("not decoded")
	}
	return nil
}

// oddPair returns nodes that know odd messages.
func oddPair(t *testing.T) (a *remote.Node, ref actor.Ref[msg]) {
	t.Helper()
	a, b := pair(t, remote.Config{Types: codec.NewTypes(codec.Of[odd]("odd"), codec.Of[add]("add"), codec.Of[list]("list"))})
	actor.Spawn[msg](a.System(), "counter", newCounter)
	return a, find(t, b, "a", "/counter")
}

func TestWhatCannotBeEncodedLeavesNoGap(t *testing.T) {
	t.Parallel()
	a, ref := oddPair(t)
	for n, say := range []string{"error", "panic", "error"} {
		ref.Tell(bg, add{n})
		if err := ref.TryTell(bg, odd{say}); !errors.Is(err, actor.ErrNotAccepted) {
			t.Errorf("%s: %v", say, err)
		}
	}
	ref.Tell(bg, add{3})
	if got, err := actor.Ask(within(t), ref, list{}); !slices.Equal(got, []int{0, 1, 2, 3}) || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if letters := a.System().DeadLetters(); len(letters) > 0 {
		t.Errorf("something else has come: %+v", letters)
	}
}

func TestADecoderThatPanicsHurtsItsMessageOnly(t *testing.T) {
	t.Parallel()
	a, ref := oddPair(t)
	for n := range 3 {
		ref.Tell(bg, add{n})
		ref.Tell(bg, odd{"there"})
	}
	if got, err := actor.Ask(within(t), ref, list{}); !slices.Equal(got, []int{0, 1, 2}) || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	letters := a.System().DeadLetters()
	if len(letters) != 3 || letters[0].Reason != actor.NotAccepted || letters[0].Type != "odd" {
		t.Errorf("dead letters: %+v", letters)
	}
}
