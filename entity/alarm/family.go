package alarm

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
)

// A family is a type with all types that extend it, as one text: their ids in order, each followed
// by a zero byte.

// families returns the family of each type.
func families(rt *entity.Runtime) map[string]string {
	lists := make(map[string][]string)
	for _, t := range rt.Types() {
		resolved, err := rt.ResolvedType(t.ID)
		if err != nil {
			continue // it has gone meanwhile
		}
		for of := range resolved.IsA {
			lists[of] = append(lists[of], t.ID)
		}
	}
	all := make(map[string]string, len(lists))
	for of, list := range lists {
		all[of] = part(list...)
	}
	return all
}

// digest returns a short text that differs for different families.
func digest(all map[string]string) string {
	h := sha256.New()
	for _, of := range slices.Sorted(maps.Keys(all)) {
		h.Write([]byte(part(of, all[of])))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// hasLost reports whether a family has lost a type.
func hasLost(was, now string) bool {
	there := make(map[string]bool)
	for id := range strings.SplitSeq(now, "\x00") {
		there[id] = true
	}
	for id := range strings.SplitSeq(was, "\x00") {
		if !there[id] {
			return true
		}
	}
	return false
}

// retype re-examines entities for the rules that use types if the extensions of types have changed,
// even while the service was closed.
func (e *engine) retype() error {
	looks := false
	for _, r := range e.rules {
		looks = looks || !r.removed && (r.Type != "" || r.types)
	}
	if !looks {
		if e.families = nil; e.place.Types != "" {
			e.place.Types, e.moved = "", true
		}
		return nil
	}
	version := e.rt.TypesVersion()
	if e.families != nil && e.types == version {
		return nil
	}
	was, before := e.families, e.place.Types
	e.families, e.types = families(e.rt), version
	if e.place.Types = digest(e.families); e.place.Types == before {
		return nil
	}
	e.moved = true
	if before == "" { // the first rule that looks at types is new, and looks at all entities
		return nil
	}
	e.cache.refresh()
	for _, r := range e.rules {
		if err := e.retypeRule(r, was); err != nil {
			return err
		}
	}
	e.publishRules()
	return nil
}

// retypeRule re-examines entities for one rule if the families that it uses differ from was, which
// is nil if unknown.
func (e *engine) retypeRule(r *rule, was map[string]string) error {
	now := e.families[r.Type]
	switch {
	case r.removed, r.Type == "" && !r.types:
		return nil
	case r.types, was == nil, hasLost(was[r.Type], now):
		r.retyped = true // entities of any type may be concerned
	case was[r.Type] == now:
		return nil
	}
	r.Pending, r.swept = true, ""
	x := r.json()
	return e.ledger.put(ruleKind, r.Name, &x)
}
