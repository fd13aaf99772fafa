-- An agent is a player: it talks with the rooms, and tells the client, which is an actor of Go, what happens there.
local greenroom = require "greenroom"
local name = ...
local room, gold = nil, 0
local CMD = {}

function CMD.enter(where)
  if room then CMD.leave() end
  room = greenroom.call(greenroom.uniqueservice("rooms.lua"), "open", where)
  return greenroom.call(room, "enter", name, greenroom.self())
end

function CMD.leave()
  greenroom.call(room, "leave", name)
  room = nil
end

function CMD.dig()
  local found = greenroom.call(room, "dig", name)
  gold = gold + found
  return gold
end

function CMD.logout()
  if room then CMD.leave() end
  greenroom.exit()
end

-- from the room
function CMD.news(text)
  greenroom.send("/client", "client.news", {player = name, text = text})
end

greenroom.dispatch(function(cmd, ...) greenroom.ret(CMD[cmd](...)) end)
