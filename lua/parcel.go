package lua

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/actor"
)

// The limits of what scripts have sent to a service that it has not handled yet. Without them a script could fill the
// memory with messages to itself.
const (
	maxUnhandled = 16 << 20 // bytes
	parcelSize   = 512      // of a message without values
)

// errUnhandled says that a service does not keep up.
var errUnhandled = errors.New("the mailbox is full: 16 MiB of messages wait there")

// parcel is what a message carries. Those of scripts are counted in the account of the service that
// they are for, until it handles them, or until it is known that they were not sent.
type parcel struct {
	body   []byte
	charge *charge // nil for messages of Go

	redirected atomic.Pointer[parcel] // what the message carries since a service has redirected it
}

// now returns what the message carries.
func (p *parcel) now() *parcel {
	if other := p.redirected.Load(); other != nil {
		return other
	}
	return p
}

// maxShown is how many bytes of values are shown.
const maxShown = 4 << 10

// Content returns the values as JSON, for the console's trace, or the size of those that are large.
func (p *parcel) Content() string {
	body := p.now().body
	if len(body) > maxShown {
		return fmt.Sprintf("%d bytes", len(body))
	}
	values, err := unpackGo(body)
	if err != nil {
		return err.Error()
	}
	shown := make([]string, len(values))
	for i, v := range values {
		text, err := json.Marshal(plainValue(v))
		if err != nil {
			text = []byte(err.Error())
		}
		shown[i] = string(text)
	}
	return strings.Join(shown, " ")
}

// charge is what a parcel takes of an account.
type charge struct {
	account *account
	size    int64
	left    atomic.Bool
}

func (k *charge) leave() {
	if !k.left.Swap(true) {
		k.account.unhandled.Add(-k.size)
	}
}

// account is what a runtime knows of a service besides its state.
type account struct {
	unhandled atomic.Int64 // bytes of messages that wait for it
	interrupt atomic.Bool  // ends the handler that runs
	handed    []byte       // what on_restart has left for the next incarnation; of the turn
	lines     lines        // written to the log; of the turn
	leftOut   int64        // lines that were not written since the last one that was; of the turn
	file      string       // never changed
	pid       actor.PID    // written by Init, once, before anybody finds the account

	names []string // guarded by the runtime's mu
	ended bool     // guarded by the runtime's mu

	versions map[string]string // the hash of each file that it has; guarded by the runtime's mu
}

// enter counts the parcel, unless there is no room.
func (p *parcel) enter(a *account) error {
	if a == nil { // it has ended, and the message will be a dead letter
		return nil
	}
	size := int64(len(p.body)) + parcelSize
	if a.unhandled.Add(size) > maxUnhandled {
		a.unhandled.Add(-size)
		return errUnhandled
	}
	p.charge = &charge{account: a, size: size}
	return nil
}

// hold counts the parcel of a request that may be answered later.
func (p *parcel) hold(w *walker) { w.size += int64(len(p.body)) + parcelSize }

// leave takes the parcel out of the account. Further calls do nothing.
func (p *parcel) leave() {
	if k := p.now().charge; k != nil {
		k.leave()
	}
}

// settle takes a request out of the account whose sender does not wait any more: err is what that
// has ended with. One that was given up may still be in the mailbox, or may never have come there:
// it counts until it is handled or nobody has it.
func (m *asked) settle(err error) {
	k := m.now().charge
	if k == nil {
		return
	}
	for _, end := range []error{context.DeadlineExceeded, context.Canceled, actor.ErrStopped} {
		if errors.Is(err, end) {
			runtime.AddCleanup(m, (*charge).leave, k)
			return
		}
	}
	k.leave()
}
