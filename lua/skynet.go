package lua

import (
	"maps"

	glua "github.com/yuin/gopher-lua"
)

// skynetFunctions is the module skynet: the functions of greenroom, with the arguments that
// services of skynet pass. Messages have a type there, of which only "lua" is known here, and a
// service is named by its file without the suffix.
func (s *service) skynetFunctions() map[string]glua.LGFunction {
	functions := s.functions()
	maps.Copy(functions, map[string]glua.LGFunction{
		"dispatch": func(l *glua.LState) int {
			checkType(l, 1)
			s.setHandler(l.CheckFunction(2), true)
			return 0
		},
		"send":          s.once(func(l *glua.LState) int { dropType(l, 2); return s.send(l) }),
		"call":          func(l *glua.LState) int { dropType(l, 2); return s.call(l, 1) },
		"ret":           s.retPacked,
		"retpack":       s.ret,
		"newservice":    s.once(func(l *glua.LState) int { return s.newService(l, l.CheckString(1)+".lua") }),
		"uniqueservice": func(l *glua.LState) int { return s.uniqueService(l, l.CheckString(1)+".lua", false) },
		"queryservice":  func(l *glua.LState) int { return s.uniqueService(l, l.CheckString(1)+".lua", true) },
		"redirect":      s.redirectPacked,
		"mqlen":         func(l *glua.LState) int { l.Push(glua.LNumber(s.queued())); return 1 },
		"genid":         func(l *glua.LState) int { s.session++; l.Push(glua.LNumber(s.session)); return 1 },
		"packstring":    s.pack,
		"tostring":      func(l *glua.LState) int { l.Push(glua.LString(l.CheckString(1))); return 1 },
		"trash":         func(*glua.LState) int { return 0 }, // texts are not freed
		"getenv":        s.shared,
		"address":       func(l *glua.LState) int { l.Push(glua.LString(l.CheckString(1))); return 1 },
	})
	return functions
}

// checkType fails unless an argument is the type of messages that there is.
func checkType(l *glua.LState, i int) {
	if t := l.CheckString(i); t != "lua" {
		l.ArgError(i, `the type of a message must be "lua"`)
	}
}

func dropType(l *glua.LState, i int) {
	checkType(l, i)
	l.Remove(i)
}

// retPacked answers with what pack has returned.
func (s *service) retPacked(l *glua.LState) int {
	values, err := s.values.unpack([]byte(l.OptString(1, "")))
	if err != nil {
		l.RaiseError("ret: %s", err)
	}
	l.SetTop(0)
	pushAll(l, values)
	return s.ret(l)
}

// redirectPacked passes on the message that is being handled, with what pack has returned: its
// source and its session are arguments, and must be those of the message.
func (s *service) redirectPacked(l *glua.LState) int {
	t := s.task
	source, session := l.CheckString(2), l.CheckNumber(4)
	checkType(l, 3)
	if t.parcel != nil && (source != t.sender.String() || session != glua.LNumber(t.number)) {
		l.RaiseError("redirect: the source and the session must be those of the message that is being handled, %s and %d", t.sender, t.number)
	}
	values, err := s.values.unpack([]byte(l.OptString(5, "")))
	if err != nil {
		l.RaiseError("redirect: %s", err)
	}
	l.SetTop(1)
	pushAll(l, values)
	return s.redirect(l)
}

// isSkynet reports whether a module is one of skynet's. They are made when they are required: most
// services do not, and they take as much memory as those of greenroom.
func isSkynet(name string) bool {
	return name == "skynet" || name == "skynet.manager" || name == "skynet.queue"
}

// openSkynet makes the modules of skynet.
func (s *service) openSkynet() {
	module := s.table(s.skynetFunctions())
	s.modules["skynet"] = module
	s.modules["skynet.manager"] = module
	s.modules["skynet.queue"] = s.root.NewFunction(s.queue)
}
