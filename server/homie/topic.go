package homie

import (
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/server/refusal"
)

const (
	prefix    = "homie/5/"
	broadcast = "$broadcast"
)

// kind is the kind of a message.
type kind uint8

const (
	ofValue       kind = iota // the value of a property
	ofTarget                  // the value that a property is moving to
	ofSet                     // sent to the device
	ofState                   // the state of the device
	ofDescription             // the description of the device
	ofAlert
	ofLog
	toAll // a broadcast
)

// topic is a parsed topic of Homie.
type topic struct {
	kind   kind
	device string
	node   string
	name   string // of the property, the alert or the log level
}

var levels = []string{"debug", "info", "warn", "error", "fatal"}

var errTopic = fmt.Errorf("%w: of Homie there are %s{device}/$state, $description, $log/{level}, $alert/{alert}, {node}/{property}, {node}/{property}/$target and {node}/{property}/set, and %s%s/…; "+
	"an id has the letters a to z, digits and -", refusal.ErrTopic, prefix, prefix, broadcast)

// parse reads a topic.
func parse(name string) (topic, error) {
	parts := strings.Split(strings.TrimPrefix(name, prefix), "/")
	if parts[0] == broadcast && len(parts) > 1 {
		return topic{kind: toAll}, nil
	}
	t := topic{device: parts[0]}
	parts = parts[1:]
	if len(parts) > 0 && !strings.HasPrefix(parts[0], "$") {
		t.node = parts[0]
	}
	known := isID(t.device)
	switch {
	case len(parts) == 1 && parts[0] == "$state":
		t.kind = ofState
	case len(parts) == 1 && parts[0] == "$description":
		t.kind = ofDescription
	case len(parts) == 2 && parts[0] == "$log":
		t.kind, t.name, known = ofLog, parts[1], known && slices.Contains(levels, parts[1])
	case len(parts) == 2 && parts[0] == "$alert":
		t.kind, t.name, known = ofAlert, parts[1], known && isID(parts[1])
	case len(parts) == 2:
		t.kind, t.name, known = ofValue, parts[1], known && isID(t.node) && isID(parts[1])
	case len(parts) == 3 && (parts[2] == "set" || parts[2] == "$target"):
		t.kind, t.name, known = ofTarget, parts[1], known && isID(t.node) && isID(parts[1])
		if parts[2] == "set" {
			t.kind = ofSet
		}
	default:
		known = false
	}
	if !known {
		return t, errTopic
	}
	return t, nil
}

// isID reports whether id is a valid id of a device, a node, a property or an alert.
func isID(id string) bool {
	return id != "" && !strings.ContainsFunc(id, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
}

// property returns {node}.{property}: the property's key, and the name of the command that sets it.
func (t *topic) property() string { return t.node + "." + t.name }

// key returns the key of the reading in a message.
func (t *topic) key() string {
	switch t.kind {
	case ofLog:
		return "$log." + t.name
	case ofTarget:
		return t.property() + ".target"
	default:
		return t.property()
	}
}

// setTopic returns the topic of a command to a device. It returns false if the command's name is
// not that of a property.
func setTopic(device, command string) (string, bool) {
	node, name, ok := strings.Cut(command, ".")
	return prefix + device + "/" + node + "/" + name + "/set", ok && isID(node) && isID(name)
}
