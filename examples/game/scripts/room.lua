-- A room tells those who are in it what happens. Its gold is dug with luck that designers change.
local greenroom = require "greenroom"
local where = ...
local inside, gold = {}, 30
local CMD = {}

local function luck() return 5 end

local function tell(except, text)
  for name, agent in pairs(inside) do
    if name ~= except then greenroom.send(agent, "news", text) end
  end
end

function CMD.enter(name, agent)
  tell(name, name .. " enters the " .. where)
  inside[name] = agent
  greenroom.watch(agent, function() CMD.leave(name) end)
  return gold
end

function CMD.leave(name)
  if not inside[name] then return end
  inside[name] = nil
  tell(name, name .. " leaves the " .. where)
end

function CMD.dig(name)
  greenroom.sleep(100) -- a second; others are served meanwhile
  local found = math.min(gold, luck())
  gold = gold - found
  tell(name, name .. " digs up " .. found)
  return found
end

greenroom.dispatch(function(cmd, ...) greenroom.ret(CMD[cmd](...)) end)
