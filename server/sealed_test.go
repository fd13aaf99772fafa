package server

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// startSealable starts a server whose store seals when it is told to.
func startSealable(t *testing.T) (*running, entity.Store) {
	t.Helper()
	log := &logBuffer{}
	cfg := Config{HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(log, nil))}
	cfg.setDefaults()
	dir := t.TempDir()
	var store entity.Store
	s, err := open(t.Context(), cfg, func() (_ entity.Store, err error) {
		store, err = openStore(t.Context(), cmp.Or(pgtest.Address(t, dir), dir), cfg.Logger, sqlite.Options{SealAfter: -1})
		return store, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return run(t, s, log), store
}

// TestSealedHistoryAnswersTheSame asks two servers the same about the recording, of which one seals
// its history in between: random parts are sealed, in rows, and late.
func TestSealedHistoryAnswersTheSame(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(20, 7))
	keys, payloads := recordingPayloads(t, rnd)
	plain, _ := startSealable(t)
	sealing, store := startSealable(t)
	for i, payload := range payloads {
		plain.post("room", payload)
		sealing.post("room", payload)
		if i%4 == 2 {
			if err := store.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if i%8 == 7 || i == len(payloads)-1 {
			compareAnswers(t, rnd, keys, plain, sealing)
		}
	}
	if err := store.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	compareAnswers(t, rnd, keys, plain, sealing)
}

// recordingPayloads returns the recording as payloads: most readings in their order, some late, and
// some corrected later.
func recordingPayloads(t *testing.T, rnd *rand.Rand) (keys, payloads []string) {
	t.Helper()
	f, err := os.Open("../testdata/occupancy/occupancy-training.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	keys = rows[0][1:]
	var now, later []string
	flush := func() {
		payloads = append(payloads, "["+strings.Join(now, ",")+"]")
		now, later = later, nil
	}
	for _, row := range rows[1:3001] {
		at, err := time.Parse(time.DateTime, row[0])
		if err != nil {
			t.Fatal(err)
		}
		var values []string
		for i, text := range row[1:] {
			values = append(values, fmt.Sprintf("%q:%s", keys[i], text))
		}
		reading := fmt.Sprintf(`{"ts":%d,"values":{%s}}`, at.UnixMilli(), strings.Join(values, ","))
		switch rnd.IntN(10) {
		case 0:
			later = append(later, reading)
		case 1:
			now = append(now, reading)
			later = append(later, fmt.Sprintf(`{"ts":%d,"values":{"CO2":%d,"Light":"dark"}}`, at.UnixMilli(), rnd.IntN(1000)))
		default:
			now = append(now, reading)
		}
		if len(now) >= 250 {
			flush()
		}
	}
	flush()
	return keys, append(payloads, "["+strings.Join(now, ",")+"]")
}

// compareAnswers asks both servers the same questions about random ranges.
func compareAnswers(t *testing.T, rnd *rand.Rand, keys []string, plain, sealing *running) {
	t.Helper()
	const first, span = 1_423_072_260_000, 3000 * 60_000 // of the readings
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	for _, key := range keys {
		from := first + rnd.Int64N(span)
		within := fmt.Sprintf("&from=%d&to=%d", from, from+rnd.Int64N(span))
		if rnd.IntN(3) == 0 {
			within = ""
		}
		for _, query := range []string{
			"agg=avg,min,max,sum,count,first,last&step=" + pick("1h", "7m", "1d"),
			"agg=avg,rate&step=" + pick("day", "hour", "week") + "&tz=Europe/Brussels&fill=" + pick("none", "null", "previous", "linear"),
			"agg=p50,p99,count&step=1h", "agg=sum,rate,count", "points=200",
			"limit=300&order=" + pick("asc", "desc"),
		} {
			path := "/v1/entities/room/telemetry/" + key + "?" + query + within
			want, got := "", ""
			_, want = plain.send(200, "GET", path, "", "")
			_, got = sealing.send(200, "GET", path, "", "")
			same(t, path, got, want)
		}
		body := fmt.Sprintf(`{"entities":["room"],"keys":[%q,"Humidity"],"agg":["avg","max"],"step":"3h","group_by":[]}`, key)
		_, want := plain.send(200, "POST", "/v1/history", typeJSONHeader, body)
		_, got := sealing.send(200, "POST", "/v1/history", typeJSONHeader, body)
		same(t, body, got, want)
	}
}

func TestHistoryIsPackedOnRequest(t *testing.T) {
	t.Parallel()
	s, store := startSealable(t)
	s.post("room", `[{"ts":1000,"values":{"t":1}},{"ts":2000,"values":{"t":2}}]`)
	s.send(204, "POST", "/v1/compact", "", "")
	headers := 0
	err := store.Scan(t.Context(), "room", "t", 0, entity.MaxTS, func(c *entity.Chunk) error {
		if h := c.Header(); h != nil && h.Count == 2 {
			headers++
		}
		return nil
	})
	if err != nil || headers != 1 {
		t.Errorf("%d blocks of two values, %v", headers, err)
	}
}
