package template

import (
	_ "embed" // for ready.json
	"encoding/json"
	"fmt"
)

// Ready is a ready-made template for common devices.
type Ready struct {
	// Name is a suggested name, and Title says what the template is for.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Topic and Payload are a sample message.
	Topic    string   `json:"topic"`
	Payload  string   `json:"payload"`
	Template Template `json:"template"`
}

//go:embed ready.json
var ready []byte

// AllReady returns the ready-made templates. They do not conflict with one another.
func AllReady() (list []Ready) {
	if err := json.Unmarshal(ready, &list); err != nil {
		panic(fmt.Sprintf("template: ready.json: %v", err)) // it is embedded in the program
	}
	return list
}
