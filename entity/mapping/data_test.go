package mapping

import (
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/soaktest"
)

// humidityRatio is the mapping of testdata/occupancy/README.md: the ASHRAE saturation
// pressure over water, and 101 325 Pa.
const humidityRatio = `insert into room select
	0.62198 * (room.Humidity / 100 * exp(-5.8002206e3 / (room.Temperature + 273.15) + 1.3914993
		- 4.8640239e-2 * (room.Temperature + 273.15) + 4.1764768e-5 * (room.Temperature + 273.15) ** 2
		- 1.4452093e-8 * (room.Temperature + 273.15) ** 3 + 6.5459673 * log(room.Temperature + 273.15)))
	/ (101325 - room.Humidity / 100 * exp(-5.8002206e3 / (room.Temperature + 273.15) + 1.3914993
		- 4.8640239e-2 * (room.Temperature + 273.15) + 4.1764768e-5 * (room.Temperature + 273.15) ** 2
		- 1.4452093e-8 * (room.Temperature + 273.15) ** 3 + 6.5459673 * log(room.Temperature + 273.15))) as ratio`

// dataRow is a line of the data file.
type dataRow struct {
	ts                                    int64
	temperature, humidity, light, co2, hr float64
}

// readData returns the rows of the recording, whose README names its source.
func readData(t testing.TB) (rows []dataRow) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "testdata", "occupancy", "occupancy-training.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range records[1:] {
		when, err := time.Parse(time.DateTime, rec[0])
		if err != nil {
			t.Fatal(err)
		}
		var v [5]float64
		for i := range v {
			if v[i], err = strconv.ParseFloat(rec[i+1], 64); err != nil {
				t.Fatal(err)
			}
		}
		rows = append(rows, dataRow{when.UnixMilli(), v[0], v[1], v[2], v[3], v[4]})
	}
	return rows
}

// worstRatio compares what the mapping has computed with the column.
func worstRatio(t *testing.T, h *house, id string, rows []dataRow) float64 {
	t.Helper()
	got := map[int64]float64{}
	for _, p := range h.points(id, "ratio") {
		got[p.TS] = p.Value.Float()
	}
	if len(got) != len(rows) {
		t.Fatalf("%d values for %d rows", len(got), len(rows))
	}
	worst := 0.0
	for _, row := range rows {
		worst = max(worst, math.Abs(got[row.ts]-row.hr)/row.hr)
	}
	return worst
}

// The long form is all of the data.
func TestTheHumidityRatioOfTheDataIsComputed(t *testing.T) {
	rows := readData(t)
	rows = rows[:soaktest.Rounds(t, 2000, len(rows))]
	h := build(t, t.TempDir(), houseOptions{})
	h.put("ratio", humidityRatio)
	// The same of five sensors, whose readings come shuffled.
	apart := strings.NewReplacer("into room", "into apart", "room.Humidity", `"sensor-h".value`, "room.Temperature", `"sensor-t".value`).Replace(humidityRatio)
	h.put("apart", apart)
	type one struct {
		id string
		ts int64
		v  float64
	}
	var shuffled []one
	for _, row := range rows {
		h.send("room", row.ts, sample("Temperature", row.temperature), sample("Humidity", row.humidity))
		shuffled = append(shuffled, one{"sensor-t", row.ts, row.temperature}, one{"sensor-h", row.ts, row.humidity})
	}
	r := rand.New(rand.NewPCG(8, 143))
	r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for _, o := range shuffled {
		h.send(o.id, o.ts, sample("value", o.v))
	}
	h.sync(1)
	// testdata/occupancy/README.md: the formula reproduces the column to a relative 2e-5.
	for _, id := range []string{"room", "apart"} {
		if worst := worstRatio(t, h, id, rows); worst > 2e-5 {
			t.Errorf("%s: the mapping must be off by at most a relative 2e-5, not %.2g", id, worst)
		} else {
			t.Logf("%s: %d values, off by a relative %.2g at most", id, len(rows), worst)
		}
	}
	if st := h.Stats(); st.Failures != 0 {
		t.Errorf("%+v", st)
	}
}
