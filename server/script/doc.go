// Package script runs rules on entities that are written in Lua. A [Script] is stored with its
// versions, selects entities, and defines functions that are called for events of these entities:
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
// Scripts run in sandboxes of package lua, as behaviors of package entity/behavior, which
// guarantees that each effect takes place once, in order for each entity, even after a crash. A
// call may take [Steps] steps. A script only affects entities that its owner, who wrote it, may
// write at that time; it ignores others.
package script
