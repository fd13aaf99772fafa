// Package script has the rules on entities that are written in Lua: a [Script] is stored with its
// versions, says for which entities it is, and has functions that are called for what happens to
// them:
//
//	function on_reading(e, r)                -- after the commit; r has the values by their keys
//	  if r.temperature > 80 and (e.latest.flow or 0) < 2 then
//	    e:set { alarm = "dry run" }          -- a reading
//	    e:command("stop", { reason = "dry run" })
//	    self.count = (self.count or 0) + 1   -- kept for each entity
//	  end
//	end
//	function every_minute(e) end             -- for entities with something in self
//
// Scripts run in sandboxes of package lua, as behaviors of package entity/behavior, which says
// what they promise: each effect once, in order for each entity, also over a crash. A call has
// [Steps] steps. A script concerns only entities that its owner, who has written it, may write
// at that time, and does nothing to others.
package script
