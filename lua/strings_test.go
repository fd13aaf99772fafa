package lua_test

import (
	"fmt"
	"testing"
)

// TestStringsAreLua has calls of the library of strings and what Lua 5.1 returns.
func TestStringsAreLua(t *testing.T) {
	play(t, nil, func(s stage) {
		for _, c := range []struct{ call, want string }{
			{`("hello"):sub(2, 3)`, "el"},
			{`("hello"):sub(-3)`, "llo"},
			{`("hello"):sub(-100, 2)`, "he"},
			{`("hello"):sub(4, 2)`, ""},
			{`("hello"):sub(2, -2)`, "ell"},
			{`("aB1-"):upper(), ("aB1-"):lower(), ("abc"):reverse(), ("abc"):len()`, "[AB1- ab1- cba 3]"},
			{`("abc"):byte(), ("abc"):byte(2, 3)`, "[97 98 99]"},
			{`("abc"):byte(-1), select("#", ("abc"):byte(10))`, "[99 0]"},
			{`string.char(72, 105)`, "Hi"},
			{`pcall(string.char, 256)`, "[false eval.lua:2: bad argument #1 to (anonymous) (invalid value)]"},
			{`("ab"):rep(3), ("ab"):rep(0), ("ab"):rep(-1)`, "[ababab  ]"},

			{`("hello world"):find("wor")`, "[7 9]"},
			{`("hello world"):find("l+")`, "[3 4]"},
			{`("hello"):find("l", 1, true)`, "[3 3]"},
			{`("a.b"):find(".", 2, true)`, "[2 2]"},
			{`("hello"):find("")`, "[1 0]"},
			{`("hello"):find("", 10)`, "[6 5]"},
			{`("hello"):find("xyz")`, "<nil>"},
			{`("key = value"):find("(%w+)%s*=%s*(%w+)")`, "[1 11 key value]"},
			{`("hello"):find("^h"), ("hello"):find("^e")`, "[1 <nil>]"},
			{`("hello"):find("o$"), ("a$"):find("$", 1, true)`, "[5 2 2]"},

			{`("2024-05-06"):match("(%d+)-(%d+)-(%d+)")`, "[2024 05 06]"},
			{`("  trim  "):match("^%s*(.-)%s*$")`, "trim"},
			{`("hello"):match("()ll()")`, "[3 5]"},
			{`("f(a(b)c)d"):match("%b()")`, "(a(b)c)"},
			{`("THE (quick) fox"):find("%f[%a]%a+%f[%A]", 5)`, "[6 10]"},
			{`("abcabc"):match("(abc)%1")`, "abc"},
			{`("[[x]]"):match("%[%[(.-)%]%]")`, "x"},
			{`("a-b_c"):match("[%w_-]+")`, "a-b_c"},
			{`("]x"):match("[]]"), ("^"):match("[%^]"), ("b"):match("[^a]")`, "[] ^ b]"},
			{`("0x1F"):match("^0[xX](%x+)$")`, "1F"},
			{`("a\0b"):match("%z"), #("a\0b"):match(".+")`, "[\x00 3]"},
			{`("aaa"):match("a-"), ("aaab"):match("a-b"), ("b"):match("a?b"), ("aaa"):match("a?a?a")`, "[ aaab b aaa]"},
			{`("\t \n"):match("^%s+$") ~= nil, ("x!"):match("%p"), ("A"):match("%u"), ("A"):match("%l")`, "[true ! A <nil>]"},

			{`("hello world"):gsub("o", "0")`, "[hell0 w0rld 2]"},
			{`("hello"):gsub("", "-")`, "[-h-e-l-l-o- 6]"},
			{`("hello world"):gsub("(%w+)", "<%1>")`, "[<hello> <world> 2]"},
			{`("hello"):gsub("l", {l = "L"}), ("$a $b"):gsub("%$(%w)", {a = "1"})`, "[heLLo 1 $b 2]"},
			{`("abc"):gsub("%w", function(c) if c == "b" then return nil end return c:upper() end)`, "[AbC 3]"},
			{`("abc"):gsub("%w", "%0%0", 2)`, "[aabbc 2]"},
			{`("abc"):gsub("^a", "x"), ("aaa"):gsub("^a", "x")`, "[xbc xaa 1]"},
			{`("a.b"):gsub("%.", "%%")`, "[a%b 1]"},
			{`pcall(string.gsub, "a", "a", "%2")`, "[false eval.lua:2: invalid capture index]"},
			{`pcall(string.gsub, "a", "a", function() return {} end)`, "[false eval.lua:2: invalid replacement value (a table)]"},

			{`(function() local t = {} for k, v in ("a=1, b=2"):gmatch("(%w+)=(%w+)") do t[#t + 1] = k .. v end return table.concat(t, ",") end)()`, "a1,b2"},
			{`(function() local n = 0 for _ in ("abc"):gmatch("") do n = n + 1 end return n end)()`, "4"},

			{`("%d %5d %-5d| %05d %+d"):format(1, 2, 3, 4, 5)`, "1     2 3    | 00004 +5"},
			{`("%x %X %o %c %u"):format(255, 255, 8, 65, 7)`, "ff FF 10 A 7"},
			{`("%x"):format(-1)`, "ffffffffffffffff"},
			{`("%s %10s %-5s| %.2s"):format("a", "b", "c", "def")`, "a          b c    | de"},
			{`("%.3f %g %g %g %e"):format(1/3, 1e20, 0.1, 100000, 12345.678)`, "0.333 1e+20 0.1 100000 1.234568e+04"},
			{`("%f %5.1f %g"):format(1/0, 2.25, -1/0)`, "inf   2.2 -inf"},
			{`("%q"):format('a "b" \\ \n')`, "\"a \\\"b\\\" \\\\ \\\n\""},
			{`("%s %s %s"):format(nil, true, 1.5)`, "nil true 1.5"},
			{`("100%%"):format()`, "100%"},
			{`("%d"):format(greenroom.int64("9007199254740993"))`, "9007199254740993"},
			{`pcall(string.format, "%d", "x")`, "[false eval.lua:2: bad argument #2 to (anonymous) (number expected, got string)]"},
			{`pcall(string.format, "%y", 1)`, "[false eval.lua:2: invalid option '%y' to 'format']"},
			{`pcall(string.format, "%")`, "[false eval.lua:2: invalid option '%' to 'format']"},
		} {
			if got := fmt.Sprint(s.eval("return " + c.call)); got != c.want {
				t.Errorf("%s\n is %q,\nnot %q", c.call, got, c.want)
			}
		}
	})
}

// TestTablesAreLua has chunks about tables, protected calls and what else is not the interpreter's own.
func TestTablesAreLua(t *testing.T) {
	play(t, nil, func(s stage) {
		for _, c := range []struct{ chunk, want string }{
			{`local t = {1, 2, 3} table.insert(t, 4) table.insert(t, 1, 0) return table.concat(t, ","), #t`, "[0,1,2,3,4 5]"},
			{`local t = {1, 2, 3} return table.remove(t), table.remove(t, 1), table.remove(t, 9), #t, table.remove({})`, "[3 1 <nil> 1 <nil>]"},
			{`return table.concat({1, "a", 2.5}, "-"), table.concat({}, "x"), table.concat({1, 2, 3}, ",", 2, 3)`, "[1-a-2.5  2,3]"},
			{`return pcall(table.concat, {1, {}, 3})`, "[false eval.lua:2: invalid value (table) at index 2 in table for concat]"},
			{`local t = {3, 1, 2} table.sort(t) local u = {"b", "a"} table.sort(u, function(a, b) return a > b end) return t[1], t[3], u[1]`, "[1 3 b]"},
			{`return (pcall(table.sort, {1, "x"})), table.maxn({1, nil, 3}), table.getn({1, 2})`, "[false 3 2]"},
			{`local t, n = {10, 20, x = 1, y = 2}, {} for k, v in pairs(t) do n[#n + 1] = k .. "=" .. v end return table.concat(n, " ")`, "1=10 2=20 x=1 y=2"},
			{`local t, n = {a = 1, b = 2, c = 3}, 0 for k in pairs(t) do t[k] = nil n = n + 1 end return n, next(t)`, "[3 <nil>]"},
			{`return next({}), next({5}), pcall(next, {}, "nope")`, "[<nil> 1 false eval.lua:2: invalid key to 'next']"},
			{`local n = 0 for i, v in ipairs({1, 2, nil, 4}) do n = n + v end return n`, "3"},
			{`return unpack({1, 2, 3}, 2)`, "[2 3]"},
			{`return select("#", unpack({}, 1, 3)), pcall(error, {code = 5})`, "[3 false map[code:5]]"},
			{`return select(2, xpcall(function() error("x", 0) end, function(e) return e .. "!" end))`, "x!"},
			{`return pcall(5)`, "[false attempt to call a number value]"},
			{`return pcall(setmetatable({}, {__call = function(_, x) return x end}), 7)`, "[true 7]"},
			{`local t = setmetatable({}, {__metatable = "no"}) return getmetatable(t), (pcall(setmetatable, t, {}))`, "[no false]"},
			{`local log = {} local t = setmetatable({}, {__newindex = function(t, k, v) rawset(t, k, v * 2) end}) t.x = 2 t[1] = 3 return t.x, t[1], rawget(t, "x"), rawequal(t, t)`, "[4 6 4 true]"},
			{`return tonumber("0x10"), tonumber("ff", 16), tonumber("x"), tonumber(" 5 ")`, "[16 255 <nil> 5]"},
			{`local a = math.random() local b = math.random(5) return a >= 0 and a < 1, b >= 1 and b <= 5, (pcall(math.random, 2, 1))`, "[true true false]"},
			{`math.randomseed(7) local a = math.random(1e9) math.randomseed(7) return a == math.random(1e9)`, "true"},
			{`local x = 0 for i = 10, 1, -3 do x = x + i end return x, 7 % 3, -7 % 3, 2 ^ 10, 7 / 2`, "[22 1 2 1024 3.5]"},
			{`local t = {} t[1.5] = 1 t[-1] = 2 t[true] = 3 t[0] = 4 return t[1.5], t[-1], t[true], t[0]`, "[1 2 3 4]"},
			{`local t = {} for i = 1, 100 do t[i] = i end for i = 1, 100 do t["k" .. i] = i end return #t, t.k100, t[100]`, "[100 100 100]"},
		} {
			if got := fmt.Sprint(plain(s.eval(c.chunk))); got != c.want {
				t.Errorf("%s\n is %q,\nnot %q", c.chunk, got, c.want)
			}
		}
	})
}
