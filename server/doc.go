// Package server is what a person or a device talks to: an MQTT broker and an
// HTTP API in one process, in front of the entity runtime and its store.
//
//	device ──MQTT e/{id}/telemetry──▶ broker ─┐
//	device ──POST …/telemetry───────▶ API ────┼─▶ entity.Runtime ─▶ store
//	person ──GET, PATCH, streams────▶ API ────┘     ▲
//	                                 mappings, retention
//
// Devices speak MQTT 3.1.1 or 5 over TCP, or over a WebSocket at /mqtt of the HTTP address. A publish to e/{id}/telemetry is
// acknowledged after the commit of its readings, and one connection may have
// [mqtt.MaxInFlight] of them under way; acknowledgements are sent in the order of the
// messages, as MQTT demands. When the runtime's window is full the broker stops
// reading the connection: nothing is dropped.
//
//	                 QoS 0         QoS 1                  QoS 2
//	accepted         -             PUBACK after commit    PUBREC after commit
//	refused, MQTT 5  counted       PUBACK with a reason   PUBREC with a reason
//	refused, 3.1.1   counted       PUBACK, counted        PUBREC, counted
//	cannot be kept   connection    connection closed,     connection closed,
//	right now        closed        not acknowledged       not acknowledged
//
// MQTT 3.1.1 has no negative answer. A refused message is acknowledged there all
// the same, because a device that is not answered sends the same message again
// forever; the log and the counter greenroom_refused_total say what is wrong.
// What was refused for no fault of the message (the server shuts down, the
// actor failed) is not acknowledged, so that the device keeps it and sends it
// again; a repeated reading replaces itself.
//
// What a device reports of itself it publishes to e/{id}/attributes: a JSON object
// that is merged into the entity's reported attributes (RFC 7396), acknowledged after
// the commit like a reading. What it should be it gets from e/{id}/desired, the whole
// document, and e/{id}/delta, what of that it does not report. A subscription to
// exactly one of these topics is answered with the document of now, with the retain
// flag and QoS 0; from then on each edit that changes it is published with QoS 1.
// Nothing is retained for it: the document is read from the entity, so that it is
// right after a restart as well. MQTT 5's retain handling is heeded; a subscription
// with wildcards gets what changes only.
//
// Whether its device is online is at e/{id}/presence in the same way, and published when that
// changes.
//
// Commands are published to e/{id}/commands, with QoS 1 and to the device alone: who
// subscribes to exactly that topic and may report for the entity. Its PUBACK is the
// delivery, and what becomes of a command it publishes to e/{id}/answers. Who subscribes
// with a wildcard looks on.
//
// Other topics are refused: an acknowledgement means durable here, and nothing would
// keep those. A will is taken in when it is sent, by the same rules. Accepted messages are forwarded to the subscribers of
// their topic after the commit, retained ones are kept in memory for new subscribers
// (up to limits, see server/mqtt), and $SYS is published. Sessions live in memory and end
// with the process.
//
// The HTTP API is described by openapi.json, which the server serves. Its entities,
// types, mappings, saved queries and rules of retention have versions: If-Match and
// If-None-Match make a write conditional (412), and a PUT that would replace something
// must have a condition (428).
//
// Package access says who may do what. As long as there is no principal, everybody on
// this machine may do everything; from the first one on, who comes must log in. Addresses
// that other machines reach need TLS and credentials, or Config.Insecure. Requests that a
// web page of another origin makes a browser send are refused.
package server
