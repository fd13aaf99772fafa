// Package scripts measures services in Lua beside the interpreter alone: gopher-lua without actors,
// limits and copies is the control of each row, in the same process and by turns.
package scripts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"testing/fstest"
	"time"

	glua "github.com/yuin/gopher-lua"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/bench/workload"
	"github.com/greenroom-go/greenroom/lua"
)

// Row is one thing that is measured.
type Row struct {
	Name    string
	What    string
	Unit    string
	Bar     float64 // what it may be at most, 0 for none
	Ratio   bool    // the bar is for the ratio to the control
	Control string  // what the interpreter alone does

	run     func(b *bench) (float64, error)
	control func(n int) (float64, error)
	n       int
}

// Rows returns all rows.
func Rows() []Row {
	return []Row{
		{
			Name: "lua-tell", What: "Go tells a service an integer", Unit: "µs", Bar: 1, n: 200_000,
			Control: "a call of the function", run: tell, control: plainLoop(`return function(n) for i = 1, n do handler(i) end end`),
		},
		{
			Name: "lua-send", What: "a service sends another an integer", Unit: "µs", Bar: 2.2, n: 200_000,
			Control: "a call of the function", run: driven("send"), control: plainLoop(`return function(n) for i = 1, n do handler(i) end end`),
		},
		{
			Name: "lua-send-table", What: "a service sends another a table of two levels", Unit: "µs", Bar: 6, n: 50_000,
			Control: "the table is made and passed", run: driven("table"),
			control: plainLoop(`return function(n) for i = 1, n do handler({id = i, name = "ann", at = {x = i, y = 2}}) end end`),
		},
		{
			Name: "lua-call", What: "a service calls another and awaits the answer", Unit: "µs", Bar: 6, n: 100_000,
			Control: "a coroutine is resumed and yields", run: driven("call"),
			control: plainLoop(`return function(n)
				local co = coroutine.wrap(function(i) while true do i = coroutine.yield(i) end end)
				for i = 1, n do co(i) end
			end`),
		},
		{
			Name: "lua-ask", What: "Go calls a service and awaits the answer", Unit: "µs", n: 50_000,
			Control: "a call of the function", run: ask, control: plainLoop(`return function(n) for i = 1, n do handler(i) end end`),
		},
		{
			Name: "lua-neighbor", What: "99 of 100 calls of a service end within this beside one in an endless loop; time that passes", Unit: "µs", n: 20_000,
			Control: "the same without the loop", run: neighbor("loop.lua"), control: alone,
		},
		{
			Name: "lua-neighbor-dear", What: "the same beside one whose instructions take long", Unit: "µs", n: 20_000,
			Control: "the same without it", run: neighbor("dear.lua"), control: alone,
		},
		{
			Name: "lua-neighbor-bomb", What: "the same beside one that fills its memory", Unit: "µs", n: 20_000,
			Control: "the same without it", run: neighbor("bomb.lua"), control: alone,
		},
		{
			Name: "lua-start", What: "a service starts", Unit: "µs", Bar: 200, n: 500,
			Control: "a state with its libraries", run: start, control: states(false),
		},
		{
			Name: "lua-service", What: "the memory of a service", Unit: "KB", Bar: 60, n: 500,
			Control: "a state with its libraries", run: memory, control: states(true),
		},
		{
			Name: "lua-waiting", What: "the memory of a handler that waits, with its stack", Unit: "KB", Bar: 20, n: 800,
			Control: "a coroutine that has yielded", run: waiting, control: coroutines,
		},
		{
			Name: "lua-steps", What: "a loop of arithmetic and assignments, 1000 turns", Unit: "µs", Bar: 1.3, Ratio: true, n: 500,
			Control: "the same", run: driven("loop"), control: plainLoop(`return function(n) for i = 1, n do loop() end end`),
		},
	}
}

const loop = `function loop() local t, x = {}, 0 for i = 1, 1000 do x = x + i t[i % 10 + 1] = x if x > 500 then x = x - 500 end end end `

// files are the services: one that counts and answers, and one that drives it.
var files = fstest.MapFS{
	"sink.lua": {Data: []byte(`local greenroom = require "greenroom" local n = 0
		greenroom.dispatch(function(v)
			if v == "count" then greenroom.ret(n) n = 0 return end
			if v == "wait" then greenroom.sleep(1000000) end
			n = n + 1 greenroom.ret(v)
		end)`)},
	"loop.lua": {Data: []byte(`require "greenroom".dispatch(function() while true do end end)`)},
	"dear.lua": {Data: []byte(`require "greenroom".dispatch(function() local s = "2.2250738585072011e-308" while true do local v = s + s % 1e-308 end end)`)},
	"bomb.lua": {Data: []byte(`require "greenroom".dispatch(function() local t = {} while true do t[#t + 1] = {x = ("x"):rep(1000) .. #t} end end)`)},
	"driver.lua": {Data: []byte(`local greenroom = require "greenroom" ` + loop + `
		local to = greenroom.newservice "sink.lua"
		greenroom.dispatch(function(how, from, n)
			for i = from, n do
				if how == "send" then greenroom.send(to, i)
				elseif how == "table" then greenroom.send(to, {id = i, name = "ann", at = {x = i, y = 2}})
				elseif how == "call" then greenroom.call(to, i)
				else loop() end
			end
			greenroom.ret(how == "loop" and n or greenroom.call(to, "count"))
		end)`)},
}

// bench is a system with a runtime.
type bench struct {
	sys *actor.System
	rt  *lua.Runtime
	n   int
}

func open(n int) (*bench, error) {
	sys := actor.NewSystem("bench", actor.WithLogger(slog.New(slog.DiscardHandler)))
	rt, err := lua.Open(sys, lua.Config{Path: files, Steps: 1 << 60, MemoryLimit: 1 << 30})
	return &bench{sys, rt, n}, err
}

// close ends the system. Handlers that wait are left.
func (b *bench) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = b.sys.Shutdown(ctx)
}

// perOperation measures the processor time of f for each of n operations, in microseconds. On a
// machine with nothing else to do that is the time that passes, or more where several processors
// are busy; elsewhere it says more than that.
func perOperation(n int, f func() error) (float64, error) {
	runtime.GC()
	began, err := workload.CPUTime()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	ended, err := workload.CPUTime()
	return float64((ended - began).Nanoseconds()) / 1000 / float64(n), err
}

func count(got []any, err error, want int) error {
	if err == nil && (len(got) != 1 || got[0] != float64(want)) {
		err = fmt.Errorf("%v messages have arrived, not %d", got, want)
	}
	return err
}

// burst is how many messages are sent before the sender looks whether they were handled: the mailbox has a bound.
const burst = 10_000

func tell(b *bench) (float64, error) {
	ref, err := b.rt.Spawn(b.sys, "sink", "sink.lua")
	if err != nil {
		return 0, err
	}
	ctx := context.Background()
	return perOperation(b.n, func() error {
		for sent := 0; sent < b.n; sent += burst {
			for i := range burst {
				if err := lua.Send(ctx, ref, i); err != nil {
					return err
				}
			}
			got, err := lua.Call(ctx, ref, "count")
			if err := count(got, err, burst); err != nil {
				return err
			}
		}
		return nil
	})
}

func ask(b *bench) (float64, error) {
	ref, err := b.rt.Spawn(b.sys, "sink", "sink.lua")
	if err != nil {
		return 0, err
	}
	ctx := context.Background()
	return perOperation(b.n, func() error {
		for i := range b.n {
			if got, err := lua.Call(ctx, ref, i); err != nil || got[0] != float64(i) {
				return fmt.Errorf("%v, %w", got, err)
			}
		}
		return nil
	})
}

// driven has the driver do something n times.
func driven(how string) func(b *bench) (float64, error) {
	return func(b *bench) (float64, error) {
		ref, err := b.rt.Spawn(b.sys, "driver", "driver.lua")
		if err != nil {
			return 0, err
		}
		ctx := context.Background()
		return perOperation(b.n, func() error {
			for from := 1; from <= b.n; from += burst {
				to := min(from+burst-1, b.n)
				want := to - from + 1
				if how == "loop" {
					want = to
				}
				got, err := lua.Call(ctx, ref, how, from, to)
				if err := count(got, err, want); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// neighbor measures calls one after the other, beside a service of a file whose handler runs again
// and again until it is at its limits.
func neighbor(hostile string) func(b *bench) (float64, error) {
	return func(b *bench) (float64, error) {
		ref, err := b.rt.Spawn(b.sys, "sink", "sink.lua")
		if err != nil {
			return 0, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if hostile != "" {
			limited, err := lua.Open(b.sys, lua.Config{Path: files}) // with the steps that a handler has
			if err != nil {
				return 0, err
			}
			loop, err := limited.Spawn(b.sys, "hostile", hostile)
			if err != nil {
				return 0, err
			}
			go func() {
				for ctx.Err() == nil {
					if _, err := lua.Call(ctx, loop); errors.Is(err, actor.ErrStopped) { // it was restarted too often
						loop, _ = limited.Spawn(b.sys, "", hostile)
					}
				}
			}()
		}
		took := make([]time.Duration, b.n)
		for i := range took {
			began := time.Now()
			if got, err := lua.Call(ctx, ref, i); err != nil || got[0] != float64(i) {
				return 0, fmt.Errorf("%v, %w", got, err)
			}
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		return float64(took[len(took)*99/100].Nanoseconds()) / 1000, nil
	}
}

// alone is neighbor without the loop.
func alone(n int) (float64, error) {
	b, err := open(n)
	if err != nil {
		return 0, err
	}
	defer b.close()
	return neighbor("")(b)
}

func start(b *bench) (float64, error) {
	return perOperation(b.n, func() error { return b.spawnAll() })
}

func (b *bench) spawnAll() error {
	for range b.n {
		if _, err := b.rt.Spawn(b.sys, "", "sink.lua"); err != nil {
			return err
		}
	}
	return nil
}

// kilobytes measures the heap and the stacks that f leaves, for each of n.
func kilobytes(n int, f func() (keep any, err error)) (float64, error) {
	before := inUse()
	keep, err := f()
	after := inUse()
	runtime.KeepAlive(keep)
	return float64(after-before) / 1024 / float64(n), err
}

func inUse() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func memory(b *bench) (float64, error) {
	return kilobytes(b.n, func() (any, error) { return b, b.spawnAll() })
}

func waiting(b *bench) (float64, error) {
	ref, err := b.rt.Spawn(b.sys, "sink", "sink.lua")
	if err != nil {
		return 0, err
	}
	ctx := context.Background()
	return kilobytes(b.n, func() (any, error) {
		for range b.n {
			if err := lua.Send(ctx, ref, "wait"); err != nil {
				return nil, err
			}
		}
		_, err := lua.Call(ctx, ref, "count")
		return b, err
	})
}

// plainLoop runs a chunk's function in the interpreter alone.
func plainLoop(chunk string) func(n int) (float64, error) {
	return func(n int) (float64, error) {
		l := glua.NewState()
		defer l.Close()
		if err := l.DoString(loop + `local n = 0 function handler(v) n = n + 1 end ` + chunk); err != nil {
			return 0, err
		}
		f := l.Get(-1)
		l.Pop(1)
		return perOperation(n, func() error { return l.CallByParam(glua.P{Fn: f, Protect: true}, glua.LNumber(n)) })
	}
}

// states makes states of the interpreter as large as they are by themselves.
func states(bytes bool) func(n int) (float64, error) {
	return func(n int) (float64, error) {
		create := func() []*glua.LState {
			var list []*glua.LState
			for range n {
				list = append(list, glua.NewState(glua.Options{MinimizeStackMemory: true, RegistrySize: 128}))
			}
			return list
		}
		if bytes {
			return kilobytes(n, func() (any, error) { return create(), nil })
		}
		return perOperation(n, func() error { create(); return nil })
	}
}

func coroutines(n int) (float64, error) {
	l := glua.NewState(glua.Options{MinimizeStackMemory: true, RegistrySize: 128})
	defer l.Close()
	return kilobytes(n, func() (any, error) {
		return l, l.DoString(fmt.Sprintf(`all = {} for i = 1, %d do all[i] = coroutine.create(function() coroutine.yield() end) coroutine.resume(all[i]) end`, n))
	})
}

// Result is what a row has come to: the median of the rounds.
type Result struct {
	Row
	Figures, Controls []float64 // sorted
}

// Figure is the median.
func (r Result) Figure() float64 { return r.Figures[len(r.Figures)/2] }

// Times is how many times that of the control it is.
func (r Result) Times() float64 { return r.Figure() / r.Controls[len(r.Controls)/2] }

// Kept reports whether the bar is kept.
func (r Result) Kept() bool {
	if r.Ratio {
		return r.Times() <= r.Bar
	}
	return r.Bar == 0 || r.Figure() <= r.Bar
}

// Measure runs the rows, each with its control, so many rounds.
func Measure(ctx context.Context, rows []Row, rounds int, quick bool) ([]Result, error) {
	results := make([]Result, len(rows))
	for range rounds {
		for i, row := range rows {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			n := row.n
			if quick {
				n = max(n/100, 10)
			}
			if err := results[i].round(row, n); err != nil {
				return nil, fmt.Errorf("%s: %w", row.Name, err)
			}
		}
	}
	for i := range results {
		slices.Sort(results[i].Figures)
		slices.Sort(results[i].Controls)
	}
	return results, nil
}

func (r *Result) round(row Row, n int) error {
	r.Row = row
	control, err := row.control(n)
	if err != nil {
		return fmt.Errorf("control: %w", err)
	}
	b, err := open(n)
	if err != nil {
		return err
	}
	figure, err := row.run(b)
	b.close()
	r.Figures, r.Controls = append(r.Figures, figure), append(r.Controls, control)
	return err
}

// Write writes the results as a table in Markdown.
func Write(w io.Writer, results []Result) error {
	if _, err := fmt.Fprint(w, "| row | what | figure | bar | control: gopher-lua alone | times |\n|---|---|---|---|---|---|\n"); err != nil {
		return err
	}
	for _, r := range results {
		bar := "–"
		switch {
		case r.Bar > 0 && r.Ratio:
			bar = fmt.Sprintf("≤ %g times", r.Bar)
		case r.Bar > 0:
			bar = fmt.Sprintf("≤ %g %s", r.Bar, r.Unit)
		}
		if !r.Kept() {
			bar += ", **missed**"
		}
		_, err := fmt.Fprintf(w, "| `%s` | %s | %s | %s | %s: %s | %.1f |\n",
			r.Name, r.What, spread(r.Figures, r.Unit), bar, r.Control, spread(r.Controls, r.Unit), r.Times())
		if err != nil {
			return err
		}
	}
	return nil
}

func spread(figures []float64, unit string) string {
	return fmt.Sprintf("%.3g (%.3g–%.3g) %s", figures[len(figures)/2], figures[0], figures[len(figures)-1], unit)
}
