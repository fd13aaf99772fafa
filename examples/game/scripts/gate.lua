-- The gate knows who is here: an agent for each player, and the rooms.
local greenroom = require "greenroom"
local agents = {}
local CMD = {}

function CMD.login(name)
  if agents[name] then error(name .. " is here already", 0) end
  local agent = greenroom.newservice("agent.lua", name)
  agents[name] = agent
  greenroom.watch(agent, function() agents[name] = nil end)
  return agent
end

function CMD.players()
  local names = {}
  for name in pairs(agents) do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, " ")
end

greenroom.start(function()
  greenroom.register(".gate")
  greenroom.dispatch(function(cmd, ...) greenroom.ret(CMD[cmd](...)) end)
end)
