package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
)

// A page of a thousand of them took 1.5 GB.
func TestAPageOfLargeEntitiesEndsByItsBytes(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	const all, limit, size = 12, 50_000, 20_000
	s.find.bytes = limit
	for i := range all {
		document := fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", size))
		if _, err := s.runtime.Edit(t.Context(), fmt.Sprintf("large-%02d", i), entity.Edits{Patches: []entity.Patch{{Section: entity.Attributes, Body: document}}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, query := range []string{"", "&q=" + "id%20like%20%22large%25%22"} {
		var ids []string
		pages := 0
		for cursor := ""; ; pages++ {
			resp, body := s.do("GET", "/v1/entities?limit=1000&fields=attributes"+query+"&cursor="+cursor, "")
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("%s %s", resp.Status, body)
			}
			if len(body) > limit+2*size {
				t.Errorf("a page of %d bytes", len(body))
			}
			var page struct {
				Entities []struct{ ID string }
				Next     string
			}
			if err := json.Unmarshal([]byte(body), &page); err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entities {
				ids = append(ids, e.ID)
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if pages != 3 || len(ids) != all || ids[0] != "large-00" || ids[all-1] != "large-11" {
			t.Errorf("with %q: %d further pages, entities %v", query, pages, ids)
		}
	}
}
