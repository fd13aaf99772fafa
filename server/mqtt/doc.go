// Package mqtt is the MQTT side of the server: a [Broker] that passes what devices publish to an
// entity runtime, and sends devices their desired attributes.
//
// A message is acknowledged when it is committed. A connection may have [MaxInFlight]
// unacknowledged messages, with [MaxInFlightBytes] of payload; acknowledgements are sent in the
// order of the messages, as MQTT requires. While the runtime does not accept more, the connection
// is not read.
//
// The topics of an entity are e/{id}/ and a name. They are all in the table topics in topic.go;
// ARCHITECTURE.md, Where to add things, says what a new one takes.
//
// The broker is mochi's, github.com/mochi-mqtt/server, with its own listener below and a hook
// above. flow.go and mochi.go contain only workarounds for defects of mochi.
package mqtt
