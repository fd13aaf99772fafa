package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/heaptest"
)

// large returns templates whose compiled form is large, each of another kind.
func large() map[string]*Template {
	list := map[string]*Template{}
	for what, expression := range map[string]string{
		"sums of one name":   heaptest.Times(450, "v", "+"),
		"sums of names":      heaptest.Times(400, "v#", "+"),
		"sums with numbers":  heaptest.Times(250, "v+1", "*"),
		"paths":              heaptest.Times(200, "a.b.c.d#", "+"),
		"calls":              heaptest.Times(100, "max(a,b,c,d)", "+"),
		"choices":            heaptest.Times(50, "(a>1 and b<2 or c=#?a:b)", "+"),
		"tests":              heaptest.Times(90, "(a between 1 and 2 or a in (1,2.5,3))", " and "),
		"strings in a list":  "a in (" + heaptest.Times(400, "'s#'", ",") + ")",
		"numbers in a list":  "a in (" + heaptest.Times(400, "#", ",") + ")",
		"short patterns":     heaptest.Times(120, "a like '%#'", " or "),
		"many pieces":        "a like '" + heaptest.Times(300, "%x_y#", "") + "'",
		"pieces of one rune": "a like '" + heaptest.Times(900, "%_a", "") + "'",
		"a long pattern":     "a ilike '" + strings.Repeat("abc_defgh", 300) + "%'",
		"spelled out":        "a icontains '" + strings.Repeat("abcdefgh ", 300) + "'",
		"ages and fallbacks": heaptest.Times(200, "(a ?? b)", "+"),
	} {
		list[what] = &Template{Topic: "t/{id}", Values: map[string]string{"a": expression, "b": expression}}
	}
	few := &Template{Topic: "t/{id}", Values: map[string]string{}}
	for i := range MaxValues {
		few.Values[fmt.Sprintf("k%d", i)] = "a.b"
	}
	list["many values"] = few
	commands := &Template{Topic: "t/{id}", Members: "*"}
	for i := range MaxCommands {
		commands.Commands = append(commands.Commands, Command{
			Name: fmt.Sprintf("c%d", i), Topic: fmt.Sprintf("t/{id}/%d/b/c/d/e", i), Payload: []byte(`[` + heaptest.Times(300, `{"":[]}`, ",") + `]`),
			Answer: &Answer{Topic: fmt.Sprintf("t/{id}/%d/b/c/d/answer", i), Number: "a.number", Result: "result", Error: "error.text"},
		})
	}
	list["commands"] = commands
	return list
}

// Not parallel: it measures the heap.
func TestACompiledTemplateTakesWhatIsEstimated(t *testing.T) {
	const copies = 2
	for what, template := range large() {
		var list []*compiled
		before := heaptest.Live()
		for i := range copies {
			own := *template
			own.Topic = fmt.Sprintf("t%d/{id}", i)
			c, err := own.compile(fmt.Sprint(i))
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			list = append(list, c)
		}
		set, err := newSet(list, nil, MaxAllCompiledBytes)
		if what == "commands" {
			set, err = newSet(list[:1], nil, MaxAllCompiledBytes)
			list = list[:1]
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		took := heaptest.Live() - before
		estimated := set.size
		t.Logf("%-20s %8d bytes, estimated %8d, ratio %.2f", what, took, estimated, float64(estimated)/float64(took))
		if estimated < took/2 || estimated > took*2 {
			t.Errorf("%s: estimated at %d bytes, takes %d", what, estimated, took)
		}
		runtime.KeepAlive(set)
		runtime.KeepAlive(list)
	}
}

func TestCompiledTemplatesAreBounded(t *testing.T) {
	large := func(topic string, values int) *Template {
		own := &Template{Topic: topic + "/{id}", Values: map[string]string{}}
		for i := range values {
			own.Values[fmt.Sprint("v", i)] = heaptest.Times(450, "v", "+")
		}
		return own
	}
	at, ok := errors.AsType[*Error](large("t", 80).Check())
	if !ok || !strings.HasPrefix(at.In, "values.v") || !strings.Contains(at.Text, "at most 2097152") {
		t.Errorf("a template of more than 2 MiB: %v", at)
	}
	c, err := large("t", 1).compile("t")
	if err != nil {
		t.Fatal(err)
	}
	d := &docs{}
	book := func() *Book {
		t.Helper()
		b, err := open(t.Context(), &Book{docs: d, log: slog.New(slog.DiscardHandler), most: 2*c.size + c.size/2})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := book()
	for _, name := range []string{"a", "b"} {
		if _, err := b.Put(t.Context(), name, large(name, 1), ""); err != nil {
			t.Fatal(err)
		}
	}
	_, err = b.Put(t.Context(), "c", large("c", 1), "")
	if !errors.Is(err, ErrTooMany) || !strings.Contains(err.Error(), fmt.Sprintf(`with "c", which takes %d bytes`, c.size)) {
		t.Errorf("a third template: %v", err)
	}
	if _, err := b.NewTrial("", large("c", 1)); !errors.Is(err, ErrTooMany) {
		t.Errorf("a trial of a third template: %v", err)
	}
	if _, err := b.Put(t.Context(), "b", large("c", 1), ""); err != nil {
		t.Errorf("another one in place of the second: %v", err)
	}
	if err := b.Delete(t.Context(), "a", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), "d", large("d", 1), ""); err != nil {
		t.Errorf("with room again: %v", err)
	}
	body, err := json.Marshal(large("e", 1))
	if err != nil {
		t.Fatal(err)
	}
	d.list["e"] = entity.Doc{Kind: kindTemplate, ID: "e", Body: body, Version: 1}
	problems := 0
	for _, s := range book().List() {
		if s.Problem != "" {
			problems++
		}
	}
	if problems != 1 {
		t.Errorf("%d of 3 stored templates are not in force, want 1", problems)
	}
}
