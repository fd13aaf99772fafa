package actor

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Actors that always have mail take turns on one worker. Each gets its weight, however long a message
// takes.
func TestTheShareOfAnActorIsItsWeight(t *testing.T) {
	for _, each := range []time.Duration{time.Microsecond, 20 * time.Microsecond, 100 * time.Microsecond, 300 * time.Microsecond, 3 * time.Millisecond} {
		t.Run(fmt.Sprint(each), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := new(worker)
				tick := time.Now()
				weights := []uint8{1, 4, 16}
				handled := make([]int, len(weights))
				for range 200 {
					for i, weight := range weights {
						b := turnBudget{messages: turnMessages * int(weight)}
						for b.begin(w); b.messages > 0; b.messages, b.used = b.messages-1, b.used+1 {
							time.Sleep(each)
							if handled[i]++; time.Since(tick) >= tickBusy {
								tick = time.Now()
								w.due.Store(true)
							}
							if w.due.Load() || b.used == b.next {
								b.look(w, weight)
							}
						}
					}
				}
				for i, weight := range weights {
					if share := float64(handled[i]) / float64(handled[0]) / float64(weight); share < 0.9 || share > 1.1 {
						t.Errorf("the weight is %d, and %d messages were handled, beside %d", weight, handled[i], handled[0])
					}
				}
			})
		})
	}
}
