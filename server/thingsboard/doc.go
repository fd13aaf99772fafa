// Package thingsboard lets devices and gateways made for ThingsBoard talk to entities: they only
// need this server's address and a token from it.
//
//	v1/devices/me/telemetry                 readings of the device
//	v1/devices/me/attributes                what it reports of itself; subscribed to: what it should be
//	v1/devices/me/attributes/request/{n}    asks for both, answered at …/response/{n}
//	v1/devices/me/rpc/request/{n}           subscribed to: commands, answered at …/response/{n}
//	v1/devices/me/rpc/request/{n}           asks the server for something, answered at …/response/{n}
//	v1/gateway/connect, disconnect          devices behind a gateway, with their names
//	v1/gateway/telemetry, attributes, attributes/request, rpc
//
// The short forms v2/t, v2/a, v2/a/req/{n} and v2/r/req/{n} are the same. The client
// attributes of ThingsBoard are the section reported of an entity, its shared attributes
// the section desired, and the name of a device is the id of its entity.
//
// Differences: a refused payload does not cost the connection, and attributes keep their time.
// Firmware and Protobuf payloads are not supported.
//
// https://thingsboard.io/docs/reference/mqtt-api/
// https://thingsboard.io/docs/reference/gateway-mqtt-api/
package thingsboard
