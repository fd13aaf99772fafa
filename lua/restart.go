package lua

import (
	"log/slog"

	glua "github.com/yuin/gopher-lua"

	"github.com/greenroom-go/greenroom/actor"
)

// Interrupt ends the handler that a service is running, for example one in an endless loop, with
// [ErrInterrupted]. It does nothing to waiting handlers or to a service that runs none. It does not
// wait. It fails with [actor.ErrStopped] if the service has ended or belongs to another runtime.
func (rt *Runtime) Interrupt(ref actor.Ref[Message]) error {
	a := rt.accountOf(ref.PID())
	if a == nil {
		return actor.ErrStopped
	}
	a.interrupt.Store(true)
	return nil
}

// Terminate calls the global function on_restart before a restart that was ordered: what it returns
// is given to start's function of the next incarnation. What fails in it is logged.
func (s *service) Terminate(_ *actor.Context[Message], why error) {
	if why != nil || s.meter.exit || s.meter.full {
		return
	}
	f, ok := s.root.G.Global.RawGetString("on_restart").(*glua.LFunction)
	if !ok {
		return
	}
	if now, err := s.rt.sys.Inspect(s.ctx.Self().PID().Path(), 0); err != nil || now.State != "restarting" {
		return
	}
	err := s.run(&task{what: restartFunction}, s.root.NewFunction(func(l *glua.LState) int {
		l.Push(f)
		l.Call(0, glua.MultRet)
		s.account.handed = s.packArguments(l, 1)
		return 0
	}))
	if err != nil {
		s.ctx.Log().Error("lua: on_restart failed", slog.Any("error", err))
	}
}
