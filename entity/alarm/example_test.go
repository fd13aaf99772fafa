package alarm_test

import (
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/entity/alarm"
)

func ExampleRule_Check() {
	rule := alarm.Rule{
		Name: "overheating", Type: "pump",
		Raise: "temperature > attributes.limit", Clear: "temperature < attributes.limit - 5", For: time.Minute,
		Severity: alarm.Critical,
	}
	fmt.Println(rule.Check())
	rule.Clear = "temperature <"
	fmt.Println(rule.Check())
	rule.Clear = "related contains to (temperature < 50)"
	fmt.Println(rule.Check())
	// Output:
	// <nil>
	// clear: filter: column 14: expected a value after '<', found the end
	// clear: invalid: must not depend on relations
}
