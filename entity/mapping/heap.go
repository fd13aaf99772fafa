package mapping

// indexHeap is a binary heap of slot numbers that knows the position of each, so that one can be
// removed, or moved when its slot changes, in O(log n). before reports which of two slots comes
// first.
type indexHeap struct {
	before func(a, b int32) bool
	order  []int32
	at     []int32 // slot → place in order, -1 for none
}

func newIndexHeap(before func(a, b int32) bool) *indexHeap { return &indexHeap{before: before} }

func (h *indexHeap) len() int { return len(h.order) }

// first returns the slot that comes first. REQUIRES: len() > 0.
func (h *indexHeap) first() int32 { return h.order[0] }

func (h *indexHeap) push(slot int32) {
	for int(slot) >= len(h.at) {
		h.at = append(h.at, -1)
	}
	h.at[slot] = int32(len(h.order))
	h.order = append(h.order, slot)
	h.up(len(h.order) - 1)
}

// remove takes a slot out that is in.
func (h *indexHeap) remove(slot int32) {
	i, last := int(h.at[slot]), len(h.order)-1
	h.swap(i, last)
	h.order = h.order[:last]
	h.at[slot] = -1
	if i < last {
		h.fix(i)
	}
}

func (h *indexHeap) fix(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

func (h *indexHeap) swap(i, j int) {
	h.order[i], h.order[j] = h.order[j], h.order[i]
	h.at[h.order[i]], h.at[h.order[j]] = int32(i), int32(j)
}

func (h *indexHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(h.order[i], h.order[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

// down reports whether it moved the slot at i.
func (h *indexHeap) down(i int) bool {
	start := i
	for {
		child := 2*i + 1
		if child >= len(h.order) {
			break
		}
		if right := child + 1; right < len(h.order) && h.before(h.order[right], h.order[child]) {
			child = right
		}
		if !h.before(h.order[child], h.order[i]) {
			break
		}
		h.swap(i, child)
		i = child
	}
	return i > start
}
