package template

import "strings"

// filterLevels returns the levels of an MQTT filter, or nil if it is too long to match a topic of a
// template.
func filterLevels(filter string) []string {
	if len(filter) > MaxTopicBytes+MaxLevels || strings.Count(filter, "/") > MaxLevels { // a + may match an empty level, and /# none
		return nil
	}
	return strings.Split(filter, "/")
}

func splitFilters(filters []string) [][]string {
	list := make([][]string, len(filters))
	for i, filter := range filters {
		list[i] = filterLevels(filter)
	}
	return list
}

// coveredBy is pattern.coveredBy of the route's topic, restricted to filters that match commands
// with the name of the route.
func (r *route) coveredBy(filter []string) (known bindings, ok bool) {
	known, ok = r.topic.coveredBy(filter)
	if name, has := known[commandName]; has && r.name != "" && name != r.name {
		return nil, false
	}
	return known, ok
}

// interest says for which entities a client subscribes to the commands of a template.
type interest struct {
	names []string        // the placeholders in the entity's id
	all   bool            // all entities
	whole map[string]bool // single entities, by key
	parts []bindings      // entities whose bindings include one of these
}

// interest returns the entities for whose commands of the template filters subscribe.
func (c *compiled) interest(filters [][]string) *interest {
	i := &interest{names: c.entity.names(), whole: map[string]bool{}}
	for _, filter := range filters {
		for r := range c.commands {
			if known, ok := c.commands[r].coveredBy(filter); ok {
				i.add(known)
			}
		}
	}
	return i
}

func (i *interest) add(known bindings) {
	own := bindings{}
	for _, name := range i.names {
		if text, ok := known[name]; ok {
			own[name] = text
		}
	}
	switch len(own) {
	case 0:
		i.all = true
	case len(i.names):
		i.whole[i.key(own)] = true
	default:
		i.parts = append(i.parts, own)
	}
}

// key joins the bindings of the id's placeholders. Levels contain no slash.
func (i *interest) key(own bindings) string {
	texts := make([]string, len(i.names))
	for n, name := range i.names {
		texts[n] = own[name]
	}
	return strings.Join(texts, "/")
}

// has reports whether the entity with the bindings own is included.
func (i *interest) has(own bindings) bool {
	if i.all || i.whole[i.key(own)] {
		return true
	}
	for _, part := range i.parts {
		if part.within(own) {
			return true
		}
	}
	return false
}

// within reports whether other contains all of b.
func (b bindings) within(other bindings) bool {
	for name, text := range b {
		if other[name] != text {
			return false
		}
	}
	return true
}
