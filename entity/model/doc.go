// Package model has the types of entities: what properties, telemetry, relations and commands an
// entity has, in which units and within which limits. It does not know entities; package entity
// checks readings and edits against types.
//
// A type is written in JSON:
//
//	{
//	  "id": "Room",
//	  "extends": ["Space"],
//	  "strict": true,
//	  "properties": {"floor": {"type": "integer", "min": -5, "max": 200}},
//	  "telemetry": {"temperature": {"type": "number", "unit": "degreeCelsius", "min": -50, "max": 100}},
//	  "relations": {"isIn": {"target": ["Building"], "max": 1}},
//	  "commands": {"restart": {"request": {"type": "object", "fields": {"delay": {"type": "duration"}}}}}
//	}
//
// or comes from a DTDL document, by [ParseDTDL]. A property "floor" is the attribute /floor in each
// section of an entity. A strict type refuses what it does not declare; an open one, the default,
// checks only what it declares.
package model
