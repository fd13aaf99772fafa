// Package wire has the bytes that nodes exchange: frames and what is in them. It decides
// nothing: package session does.
//
// A frame is
//
//	uint24 length | uint8 kind | body
//
// with the most significant byte first; the length is that of kind and body. Numbers in
// bodies are varints, as in encoding/binary. What comes from a peer is checked here
// against the limits of this package, so that no body makes its reader panic or allocate
// more than a small multiple of its length. What is decoded refers to the bytes it was
// decoded from.
package wire
