package sparkplug

import (
	"fmt"
	"testing"
	"time"
)

func newEdges() *edges {
	return &edges{online: map[[2]string]*edge{}, asked: map[[2]string]time.Time{}}
}

// say notes a message, and returns what becomes known.
func say(t *testing.T, e *edges, name string, seq uint64, metrics ...metric) (noted, payload) {
	t.Helper()
	to, err := parse(prefix + name)
	if err != nil {
		t.Fatal(err)
	}
	p := payload{seq: seq, hasSeq: to.kind != ndeath, metrics: metrics}
	out, err := e.note(&to, &p)
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
	if e.aliases != 0 || len(e.online) != 0 {
		t.Errorf("%d aliases of %d edge nodes are left", e.aliases, len(e.online))
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
		"g/NBIRTH": "error", "g/NBIRTH/e/d": "error", "g/DDATA/e": "error", "g/XDATA/e": "error", "g//e": "error", "g/NDATA/a|b": "error", "/NDATA/e": "error", "g/DDATA/e/": "error", "STATE": "error",
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
