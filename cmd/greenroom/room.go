package main

import (
	"math"
	"math/rand/v2"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// room simulates a room with people in it and sensors on its walls.
type room struct {
	name  string
	seats int
	rng   *rand.Rand

	people                     int
	doorOpen                   bool
	temperature, humidity, co2 float64
	light, cloud               float64
	mode                       string
	untilOccupancy, untilDoor  float64 // minutes until the next change
}

const (
	outdoorCO2  = 420.0 // ppm
	co2Person   = 2.4   // ppm per minute and person, in a room of this size
	airChange   = 0.012 // per minute, with the door closed
	airDoor     = 0.05  // with the door open
	lampLight   = 380.0 // lux
	sunLight    = 420.0 // lux at noon, with a clear sky
	nightTarget = 17.5  // °C
	dayTarget   = 21.0
)

func newRoom(name string, seats int, rng *rand.Rand) *room {
	return &room{name: name, seats: seats, rng: rng, temperature: 19, humidity: 42, co2: outdoorCO2 + 30, mode: "night"}
}

// advance advances the simulation by some minutes. hour is the hour of the day, 0 to 24.
func (r *room) advance(hour, minutes float64) {
	r.mode = modeAt(hour)
	r.moveDoorAndPeople(minutes)
	approach := func(value *float64, target, perMinute float64) {
		*value += (target - *value) * (1 - math.Exp(-perMinute*minutes))
	}
	r.cloud = min(max(r.cloud+r.rng.NormFloat64()*0.02*math.Sqrt(minutes), 0), 0.8)
	sun := max(0, math.Sin((hour-6)/12*math.Pi)) * (1 - r.cloud)
	lamps := 0.0
	if r.people > 0 {
		lamps = lampLight
	}
	approach(&r.light, sun*sunLight+lamps, 0.8)

	target := nightTarget
	if hour >= 6 && hour < 19 {
		target = dayTarget
	}
	approach(&r.temperature, target+0.3*float64(r.people)+2*sun, 0.02)
	air := airChange
	if r.doorOpen {
		air = airDoor
	}
	approach(&r.co2, outdoorCO2+co2Person*float64(r.people)/air, air)
	approach(&r.humidity, 52-1.2*(r.temperature-17)+1.1*float64(r.people), 0.02)
}

func modeAt(hour float64) string {
	switch {
	case hour < 7.5 || hour >= 19:
		return "night"
	case hour >= 12 && hour < 13:
		return "lunch"
	default:
		return "working"
	}
}

// wanted returns the intended occupancy, as a fraction of the seats.
func (r *room) wanted() float64 {
	switch r.mode {
	case "working":
		return 0.75
	case "lunch":
		return 0.2
	default:
		return 0
	}
}

// moveDoorAndPeople moves people in and out one by one, on average every quarter of an hour.
func (r *room) moveDoorAndPeople(minutes float64) {
	if r.untilDoor -= minutes; r.doorOpen && r.untilDoor <= 0 {
		r.doorOpen = false
	}
	if r.untilOccupancy -= minutes; r.untilOccupancy > 0 {
		return
	}
	r.untilOccupancy = 15 * r.rng.ExpFloat64()
	missing := r.wanted()*float64(r.seats) - float64(r.people) + r.rng.NormFloat64()
	switch {
	case missing > 0.5 && r.people < r.seats && r.mode != "night":
		r.people++
	case missing < -0.5 && r.people > 0:
		r.people--
	default:
		return
	}
	r.doorOpen, r.untilDoor = true, 4+6*r.rng.ExpFloat64() // they leave it open for a while
}

// appendReadings appends the readings of the room's sensors, and those of the room as a whole.
func (r *room) appendReadings(dst []entityReading, ts int64) []entityReading {
	noisy := func(value, deviation, unit float64) float64 {
		return math.Round((value+r.rng.NormFloat64()*deviation)/unit) * unit
	}
	temperature := value.Float(twoDigits(noisy(r.temperature, 0.03, 0.01)))
	humidity := value.Float(twoDigits(noisy(r.humidity, 0.1, 0.05)))
	co2 := value.Int(int64(noisy(r.co2, 4, 1)))
	light := value.Int(int64(max(0, noisy(r.light, 2, 1))))
	door := value.Bool(r.doorOpen)
	add := func(suffix string, values ...entity.Sample) {
		dst = append(dst, entityReading{r.name + suffix, entity.Reading{TS: ts, Values: values}})
	}
	add("", entity.Sample{Key: "temperature", Value: temperature}, entity.Sample{Key: "humidity", Value: humidity},
		entity.Sample{Key: "co2", Value: co2}, entity.Sample{Key: "light", Value: light},
		entity.Sample{Key: "people", Value: value.Int(int64(r.people))}, entity.Sample{Key: "occupied", Value: value.Bool(r.people > 0)},
		entity.Sample{Key: "mode", Value: value.String(r.mode)})
	add("-climate", entity.Sample{Key: "temperature", Value: temperature}, entity.Sample{Key: "humidity", Value: humidity})
	add("-air", entity.Sample{Key: "co2", Value: co2})
	add("-light", entity.Sample{Key: "light", Value: light})
	add("-door", entity.Sample{Key: "open", Value: door})
	return dst
}

func twoDigits(f float64) float64 { return math.Round(f*100) / 100 }
