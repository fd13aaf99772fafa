// Package access says who may do what. It knows neither HTTP nor MQTT.
//
// A [Principal] is a person, a service or a device with a name and one credential: a token, a
// password, or a client certificate. Its permissions are a list of grants, each a [Role] over the
// entities that a filter matches. A [Book] keeps the principals in the server's store and in
// memory, logs them in, and ends what they have open when they are revoked. A [Log] is the
// append-only record of who changed what.
//
//	credential   kept as                         checked by
//	token        SHA-256 of 256 random bits      one comparison in constant time
//	password     argon2id                        argon2id; then a keyed hash in memory
//	certificate  nothing                         the listener, against its CA; the common name is the principal's
//
// As long as a Book has no principal and does not demand one, everybody may do
// everything: see [Book.Guarded].
package access
