// Package server contains the MQTT broker and the HTTP API, in one process, in front of the entity
// runtime and its store.
//
//	device ──MQTT e/{id}/telemetry──▶ broker ─┐
//	device ──POST …/telemetry───────▶ API ────┼─▶ entity.Runtime ─▶ store
//	person ──GET, PATCH, streams────▶ API ────┘     ▲
//	                                 mappings, retention
//
// Devices use MQTT 3.1.1 or 5 over TCP, or over a WebSocket at /mqtt of the HTTP address. A publish
// to e/{id}/telemetry is acknowledged after the commit of its readings. A connection may have
// [mqtt.MaxInFlight] unacknowledged publishes; acknowledgements are sent in the order of the
// messages, as MQTT requires. When the runtime's window is full, the broker stops reading the
// connection: nothing is dropped.
//
//	                 QoS 0         QoS 1                  QoS 2
//	accepted         -             PUBACK after commit    PUBREC after commit
//	refused, MQTT 5  counted       PUBACK with a reason   PUBREC with a reason
//	refused, 3.1.1   counted       PUBACK, counted        PUBREC, counted
//	cannot be kept   connection    connection closed,     connection closed,
//	right now        closed        not acknowledged       not acknowledged
//
// MQTT 3.1.1 has no negative acknowledgement. A refused message is acknowledged nevertheless,
// because a device without an answer sends the same message forever; the log and the counter
// greenroom_refused_total say what is wrong. A message that is refused through no fault of its own
// (the server is shutting down, the actor failed) is not acknowledged, so that the device keeps it
// and sends it again; a repeated reading replaces itself.
//
// A device publishes what it reports about itself to e/{id}/attributes: a JSON object that is
// merged into the entity's reported attributes (RFC 7396) and acknowledged after the commit, like a
// reading. It receives its desired attributes from e/{id}/desired, the whole document, and from
// e/{id}/delta, the parts that differ from reported. A subscription to exactly one of these topics
// is answered with the current document, with the retain flag and QoS 0; after that, each edit that
// changes it is published with QoS 1. Nothing is retained for this: the document is read from the
// entity, so it is correct after a restart as well. MQTT 5's retain handling is respected; a
// subscription with wildcards receives only changes.
//
// In the same way, the topic e/{id}/presence says whether the device is online, and is published
// when that changes.
//
// Commands are published to e/{id}/commands, with QoS 1 and only to the device: the client that
// subscribes to exactly that topic and has the role device for the entity. Its PUBACK confirms the
// delivery, and it publishes progress and outcome to e/{id}/answers. Wildcard subscribers only
// observe.
//
// Other topics are refused: an acknowledgement means that a message is durable, and nothing would
// store these. A will is handled when it is sent, by the same rules. Accepted messages are
// forwarded to the subscribers of their topic after the commit, retained ones are kept in memory
// for new subscribers (within limits, see server/mqtt), and $SYS is published. Sessions and
// retained messages are in memory; a server that shuts down in order passes them to the next one.
//
// openapi.json, which the server serves, describes the HTTP API. Entities, types, mappings, saved
// queries and retention rules have versions: If-Match and If-None-Match make a write conditional
// (412), and a PUT that would replace something must have a condition (428).
//
// Package access decides who may do what. As long as there is no principal, everybody on this
// machine may do everything; from the first one on, clients must log in. Addresses that other
// machines can reach require TLS and credentials, or Config.Insecure. Requests that a web page of
// another origin makes a browser send are refused.
package server
