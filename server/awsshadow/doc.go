// Package awsshadow connects devices and applications made for the device shadows of AWS IoT, over
// their MQTT topics and over HTTP. A thing is an entity, and its classic shadow consists of the
// sections desired and reported.
//
//	$aws/things/{thing}/shadow/update  get  delete     with /accepted and /rejected
//	$aws/things/{thing}/shadow/update/delta            when desired and reported differ after a change
//	$aws/things/{thing}/shadow/update/documents        the shadow before and after an update
//	$aws/things/{thing}/shadow/name/{shadow}/…         the same for a named shadow
//
// A named shadow is the member of that name in both sections. The version of a shadow is the
// revision of the entity, which other edits increase as well. Principals that may report for an
// entity may write both sections of its shadows, because a device that was changed by hand does so.
//
// Requests are answered on their topics, with the codes and texts of AWS. A rejected request is
// counted as refused, and still acknowledged.
//
// https://docs.aws.amazon.com/iot/latest/developerguide/device-shadow-mqtt.html
//
// https://docs.aws.amazon.com/iot/latest/developerguide/device-shadow-error-messages.html
package awsshadow
