package sealed

import (
	"slices"

	"github.com/greenroom-go/greenroom/entity"
)

// Within returns the points with from <= place < to; points must be in order.
func Within(points []entity.Point, from, to entity.Place) []entity.Point {
	at := func(place entity.Place) int {
		i, _ := slices.BinarySearchFunc(points, place, func(p entity.Point, place entity.Place) int { return p.Place().Compare(place) })
		return i
	}
	first := at(from)
	return points[first:max(first, at(to))]
}

// Overlay merges old and over, both in the requested order, up to limit: of two in the same place,
// the one of over counts.
func Overlay[T any](old, over []T, limit int, descending bool, place func(*T) entity.Place) []T {
	switch {
	case len(over) == 0:
		return old[:min(limit, len(old))]
	case len(old) == 0:
		return over[:min(limit, len(over))]
	}
	list := make([]T, 0, min(limit, len(old)+len(over)))
	for len(list) < limit && len(old)+len(over) > 0 {
		order := 0
		switch {
		case len(over) == 0:
			order = -1
		case len(old) == 0:
			order = 1
		default:
			if order = place(&old[0]).Compare(place(&over[0])); descending {
				order = -order
			}
		}
		if order < 0 {
			list = append(list, old[0])
		} else {
			list = append(list, over[0])
			over = over[1:]
		}
		if order <= 0 {
			old = old[1:]
		}
	}
	return list
}

// OverlayPoints is Overlay for points.
func OverlayPoints(old, over []entity.Point, limit int, descending bool) []entity.Point {
	return Overlay(old, over, limit, descending, (*entity.Point).Place)
}
