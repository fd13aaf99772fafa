package template

import (
	_ "embed" // for ready.json
	"encoding/json"
	"fmt"
)

// Ready is a ready-made template, for common devices.
type Ready struct {
	// Name and Title are what it may be called, and what it is for.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Topic and Payload are a message that it takes.
	Topic    string   `json:"topic"`
	Payload  string   `json:"payload"`
	Template Template `json:"template"`
}

//go:embed ready.json
var ready []byte

// AllReady returns the templates to begin with. They can be used together.
func AllReady() (list []Ready) {
	if err := json.Unmarshal(ready, &list); err != nil {
		panic(fmt.Sprintf("template: ready.json: %v", err)) // a part of the program
	}
	return list
}
