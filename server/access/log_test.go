package access

import (
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
)

func TestTheAuditLogSurvivesARestartInItsOrder(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, open func() *entity.Runtime) {
		const rounds, each = 4, 60
		for range rounds {
			l, err := OpenLog(t.Context(), open())
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range each {
				wg.Go(func() {
					if err := l.Add(t.Context(), Entry{Who: "root", Action: "deleteEntity", What: strings.Repeat("x", 300), Outcome: "ok"}); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		l, err := OpenLog(t.Context(), open())
		if err != nil {
			t.Fatal(err)
		}
		if l.segment < 3 {
			t.Errorf("all is in %d segments: none was full", l.segment)
		}
		want, before := uint64(rounds*each), uint64(0)
		for want > 0 {
			list, err := l.Entries(t.Context(), before, 7)
			if err != nil || len(list) == 0 {
				t.Fatalf("before %d: %d entries, %v", before, len(list), err)
			}
			for i := range list {
				if list[i].Seq != want || list[i].TS == 0 {
					t.Fatalf("entry %d is %+v", want, list[i])
				}
				want--
			}
			before = list[len(list)-1].Seq
		}
		if list, err := l.Entries(t.Context(), 1, 7); err != nil || len(list) != 0 {
			t.Errorf("before the first: %v, %v", list, err)
		}
	})
}
