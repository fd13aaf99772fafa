// Package mqtt is the MQTT side of the server: a [Broker] that passes what devices publish to an
// entity runtime, and tells devices what they should be.
//
// A message is acknowledged when it is committed. A connection may have [MaxInFlight] messages
// under way, of [MaxInFlightBytes]; acknowledgements are sent in the order of the messages, as MQTT demands. When the
// runtime accepts no more, the connection is not read.
//
// The topics of an entity are e/{id}/ and a name. All of them are in one table, topics
// in topic.go: to add one, add a row that says who may publish to it.
//
// The broker is mochi's, github.com/mochi-mqtt/server, with a listener of its own below
// and a hook above. flow.go and mochi.go work around defects of mochi, and nothing else.
package mqtt
