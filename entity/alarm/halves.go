package alarm

// halves is a cache of values by ID, bounded in bytes. It keeps the newer half and, until that is
// full, the previous one. The zero value has room for only the newest value.
type halves[V any] struct {
	young, old map[string]sized[V]
	bytes      int // of young
	most       int // of each half
}

type sized[V any] struct {
	v     V
	bytes int
}

// find returns a value, the zero V for one that is not kept. young reports whether it is in the newer half.
func (h *halves[V]) find(id string) (v V, young bool) {
	if x, ok := h.young[id]; ok {
		return x.v, true
	}
	return h.old[id].v, false
}

// add keeps a value in the newer half, in place of one of the same ID.
func (h *halves[V]) add(id string, v V, bytes int) {
	h.forget(id)
	if h.bytes+bytes > h.most {
		h.young, h.old, h.bytes = nil, h.young, 0
	}
	if h.young == nil {
		h.young = make(map[string]sized[V])
	}
	h.young[id] = sized[V]{v, bytes}
	h.bytes += bytes
}

// forget drops a value.
func (h *halves[V]) forget(id string) {
	h.bytes -= h.young[id].bytes
	delete(h.young, id)
	delete(h.old, id)
}

// clear drops all values.
func (h *halves[V]) clear() {
	h.young, h.old, h.bytes = nil, nil, 0
}
