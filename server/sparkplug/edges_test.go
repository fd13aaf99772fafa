package sparkplug

import (
	"fmt"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/server/layout"
)

func newEdges() *edges {
	e := &edges{}
	e.start()
	return e
}

// say notes a message, and returns what becomes known.
func say(t *testing.T, e *edges, name string, seq uint64, metrics ...metric) (noted, payload) {
	t.Helper()
	to, err := parse(prefix + name)
	if err != nil {
		t.Fatal(err)
	}
	p := payload{seq: seq, hasSeq: to.kind != ndeath, metrics: metrics}
	out, err := e.note(sender{speaks: true}, &to, &p)
	if err != nil {
		t.Fatal(err)
	}
	return out, p
}

func TestAliasesAreThoseOfTheBirth(t *testing.T) {
	t.Parallel()
	e := newEdges()
	say(t, e, "g/NBIRTH/e", 0, metric{name: "a", alias: 1, hasAlias: true, datatype: typeInt8})
	say(t, e, "g/DBIRTH/e/d", 1, metric{name: "b", alias: 2, hasAlias: true})
	_, p := say(t, e, "g/DDATA/e/d", 2, metric{alias: 2, hasAlias: true}, metric{alias: 3, hasAlias: true}, metric{name: "c"})
	if got := fmt.Sprint(p.metrics[0].name, ",", p.metrics[1].name, ",", p.metrics[2].name); got != "b,,c" {
		t.Errorf("names: %s", got)
	}
	_, p = say(t, e, "g/NDATA/e", 3, metric{alias: 1, hasAlias: true})
	if p.metrics[0].name != "a" || p.metrics[0].datatype != typeInt8 {
		t.Errorf("metric: %+v", p.metrics[0])
	}
	say(t, e, "g/NBIRTH/e", 0)
	if _, p = say(t, e, "g/NDATA/e", 1, metric{alias: 1, hasAlias: true}); p.metrics[0].name != "" {
		t.Error("an alias outlived its birth")
	}
	say(t, e, "g/NDEATH/e", 0)
	if e.bytes != 0 || len(e.online)+len(e.of) != 0 {
		t.Errorf("%d bytes of %d edge nodes are left", e.bytes, len(e.online))
	}
}

func TestBirthIsAskedForWhereAMessageIsMissing(t *testing.T) {
	t.Parallel()
	e := newEdges()
	if out, _ := say(t, e, "g/NDATA/e", 5); !out.rebirth {
		t.Error("an unknown edge node is not asked")
	}
	if out, _ := say(t, e, "g/NDATA/e", 6); out.rebirth {
		t.Error("it is asked twice at once")
	}
	say(t, e, "g/NBIRTH/e", 0)
	for seq := uint64(1); seq < 600; seq++ {
		if out, _ := say(t, e, "g/NDATA/e", seq%seqs); out.rebirth {
			t.Fatalf("asked at %d although nothing is missing", seq)
		}
	}
	if out, _ := say(t, e, "g/NDATA/e", 99); !out.rebirth {
		t.Error("not asked although messages are missing")
	}
	other := newEdges()
	say(t, other, "g/NBIRTH/e", 0)
	if out, _ := say(t, other, "g/DDATA/e/d", 1); !out.rebirth {
		t.Error("not asked about a device that was never born")
	}
}

func TestDeathOfAnEarlierLifeIsPassedOver(t *testing.T) {
	t.Parallel()
	e := newEdges()
	say(t, e, "g/NBIRTH/e", 0, metric{name: bdSeqName, bits: 4})
	say(t, e, "g/NBIRTH/e", 0, metric{name: bdSeqName, bits: 5})
	say(t, e, "g/DBIRTH/e/d", 1)
	if out, _ := say(t, e, "g/NDEATH/e", 0, metric{name: bdSeqName, bits: 4}); !out.stale || len(out.gone) > 0 {
		t.Errorf("the will of the earlier connection: %+v", out)
	}
	if out, _ := say(t, e, "g/NDEATH/e", 0, metric{name: bdSeqName, bits: 5}); out.stale || fmt.Sprint(out.gone) != "[d]" {
		t.Errorf("its own: %+v", out)
	}
}

func TestTopics(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"g/NBIRTH/e": "g|e", "g/DDATA/e/d": "g|e|d", "g/NCMD/e": "g|e", "STATE/host": "",
		"g/NBIRTH": "error", "g/NBIRTH/e/d": "error", "g/DDATA/e": "error", "g/XDATA/e": "error", "g//e": "error", "g/NCMD/+": "error", "STATE/#": "error", "g/NDATA/a|b": "error", "/NDATA/e": "error", "g/DDATA/e/": "error", "STATE": "error",
	} {
		to, err := parse(prefix + name)
		got := to.id()
		switch {
		case err != nil:
			got = "error"
		case to.kind == state:
			got = ""
		}
		if got != want {
			t.Errorf("%s is about %q (%v), want %q", name, got, err, want)
		}
	}
}

func TestAliasesAndTypesAreThoseOfTheDevice(t *testing.T) {
	t.Parallel()
	e := newEdges()
	say(t, e, "g/NBIRTH/e", 0, metric{name: "a", alias: 1, hasAlias: true, datatype: typeInt32})
	say(t, e, "g/DBIRTH/e/d", 1, metric{name: "b", alias: 1, hasAlias: true, datatype: typeInt16}, metric{name: "c", datatype: typeInt8})
	minus := func(m metric) metric {
		m.kind, m.bits = fieldInt, uint64(uint32(1<<32-5))
		return m
	}
	_, p := say(t, e, "g/NDATA/e", 2, minus(metric{alias: 1, hasAlias: true}))
	if readings, err := p.readings(7); fmt.Sprint(readings, err) != "[{7 [{a -5}] 0 false}] <nil>" {
		t.Errorf("of the edge node: %v, %v", readings, err)
	}
	_, p = say(t, e, "g/DDATA/e/d", 3, minus(metric{alias: 1, hasAlias: true}), minus(metric{name: "c"}))
	if readings, err := p.readings(7); fmt.Sprint(readings, err) != "[{7 [{b -5} {c -5}] 0 false}] <nil>" {
		t.Errorf("of the device: %v, %v", readings, err)
	}
}

func TestBirthThatIsTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	e := newEdges()
	note := func(name string, metrics ...metric) error {
		to, err := parse(prefix + name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.note(sender{speaks: true}, &to, &payload{hasSeq: true, metrics: metrics})
		return err
	}
	if err := note("g/NBIRTH/e", metric{name: strings.Repeat("x", 5000), alias: 1, hasAlias: true}); err == nil {
		t.Error("a name of any length was kept")
	}
	if err := note("g/NBIRTH/e"); err != nil {
		t.Fatal(err)
	}
	var err error
	for i := range MaxDevices + 1 {
		if err = note(fmt.Sprintf("g/DBIRTH/e/%d", i)); err != nil {
			break
		}
	}
	if err == nil {
		t.Error("any number of devices was kept")
	}
	for i := 1; i < MaxEdgesOfClient; i++ {
		if err := note(fmt.Sprintf("g/NBIRTH/e%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := note("g/NBIRTH/one-more"); err == nil {
		t.Error("a client has any number of edge nodes")
	}
	e.left(nil)
	if e.bytes != 0 || len(e.online)+len(e.of) != 0 {
		t.Errorf("%d bytes of %d edge nodes are left", e.bytes, len(e.online))
	}
}

func TestBirthTakesTheDevicesOfTheLifeBeforeOffline(t *testing.T) {
	t.Parallel()
	e := newEdges()
	say(t, e, "g/NBIRTH/e", 0)
	say(t, e, "g/DBIRTH/e/d", 1)
	if out, _ := say(t, e, "g/NBIRTH/e", 0); fmt.Sprint(out.gone) != "[d]" {
		t.Errorf("gone: %v", out.gone)
	}
}

func TestNoPrincipalHasMoreThanItLeavesForOthers(t *testing.T) {
	t.Parallel()
	type connection struct{ layout.Client }
	note := func(e *edges, owner, name string, bytes int) error {
		to, err := parse(prefix + name)
		if err != nil {
			t.Fatal(err)
		}
		p := payload{hasSeq: true}
		for i := range bytes / (200 + metricBytes) {
			p.metrics = append(p.metrics, metric{name: fmt.Sprintf("%0200d", i)})
		}
		_, err = e.note(sender{client: &connection{}, owner: owner, speaks: true}, &to, &p) // each on a connection of its own
		return err
	}
	born := func(e *edges, owner string, bytes int) (n int) {
		for ; n <= MaxEdges; n++ {
			if err := note(e, owner, fmt.Sprintf("%s/NBIRTH/%d", owner, n), bytes); err != nil {
				break
			}
		}
		return n
	}
	e := newEdges()
	if first, second := born(e, "first", 0), born(e, "second", 0); first != MaxEdges/2 || second != MaxEdges/4 {
		t.Errorf("edge nodes: %d and then %d, of %d", first, second, MaxEdges)
	}
	e = newEdges()
	if first, second := born(e, "first", 1<<20), born(e, "second", 1<<20); first < 30 || first > 32 || second < 15 || second > 16 {
		t.Errorf("births of 1 MiB: %d and then %d", first, second)
	}
	e.endAll()
	if e.bytes != 0 || len(e.online)+len(e.of)+len(e.owners) != 0 {
		t.Errorf("%d bytes of %d edge nodes of %v are left", e.bytes, len(e.online), e.owners)
	}
}
