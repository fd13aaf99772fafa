-- The one service that knows the rooms.
local greenroom = require "greenroom"
local rooms = {}
local alone = greenroom.queue()

greenroom.dispatch(function(cmd, where)
  alone(function() -- two who open a room at once get the same
    rooms[where] = rooms[where] or greenroom.newservice("room.lua", where)
  end)
  greenroom.ret(rooms[where])
end)
