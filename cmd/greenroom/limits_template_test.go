package main

import (
	"fmt"
	"net/http"
	"strings"
)

// templates puts large templates until there is no room for another one, compiled.
func (s *limited) templates() {
	expressions, least := 40, 20
	expression := "v" + strings.Repeat(" + (v=1 and v=2 or v=1?v:v)", 49) // which take much for their text
	if s.long {
		expressions, least, expression = 128, 30, "v"+strings.Repeat(" + v", 110)
	}
	var values strings.Builder
	for i := range expressions {
		fmt.Fprintf(&values, `,"v%d":%q`, i, expression)
	}
	body := func(i int) string { return fmt.Sprintf(`{"topic":"t%d/{id}","values":{%s}}`, i, values.String()[1:]) }
	n := 0
	for ; n < 256; n++ {
		if status, text := s.try("PUT", fmt.Sprintf("/v1/templates/t%d", n), "application/json", body(n)); status != http.StatusCreated {
			if status != 422 || !strings.Contains(text, "at most 33554432 are allowed") {
				s.t.Errorf("template %d: %d %s", n, status, text)
			}
			break
		}
	}
	if n < least || n == 256 {
		s.t.Errorf("%d large templates are taken", n)
	}
	s.must(204, "DELETE", "/v1/templates/t0", "", "")
	s.must(201, "PUT", "/v1/templates/again", "application/json", body(0))
	c, _ := s.connect("templates", 2, "")
	if code := c.publish(s.t, "t1/lamp", `{"v":1}`, 0); code != 0 {
		s.t.Errorf("code %x for a message of a template", code)
	}
}
