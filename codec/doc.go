// Package codec gives values names and bytes that outlive the program: for journals, which later
// releases read, and for the wire, whose other end may run another release.
//
// A [Types] says which types there are, under which names, and how to read what earlier releases
// wrote:
//
//	var types = codec.NewTypes(
//		codec.Of[Added]("cart.added", codec.Was("cart.item-added")),
//		codec.Of[Removed]("cart.removed"),
//		codec.Of[Priced]("cart.priced.v2", codec.From("cart.priced", upcastPriced)),
//		codec.Split("cart.merged", splitMerged),
//		codec.Of[*pb.Order](""),
//	)
//
// It is a value and not a global: two systems of one process can have different ones. [NewTypes]
// panics if something is wrong, so that a mistake ends a program at its start and not at its first
// event.
//
// # Forms
//
// How a type is encoded follows from its methods. The first that fits is taken:
//
//  1. MarshalVT and UnmarshalVT, as vtprotobuf generates them;
//  2. [proto.Message];
//  3. [encoding.BinaryAppender] or [encoding.BinaryMarshaler], with [encoding.BinaryUnmarshaler];
//  4. CBOR (RFC 8949, core deterministic encoding), for everything else.
//
// In CBOR a struct is a map with the names of its fields, or with those in cbor tags: `cbor:"n"`,
// `cbor:"1,keyasint"` where bytes matter, `cbor:"-"` for a field that is left out. Equal values
// have equal bytes. Times keep their nanoseconds and their offset, and lose the name of their zone.
// A type that CBOR cannot reproduce is refused: one with a channel, a function, an interface, an
// [unsafe.Pointer], a complex number, or an unexported field without the tag "-". A value must have
// no cycles, and be at most 65 535 levels deep.
//
// A field of the type [actor.Ref] is written as the address of its actor, and read as a reference
// of the system to which the Types are bound, see [Types.Bind]. Use [Types.Strict] for bytes from
// strangers.
//
// # Evolution
//
// A field that is missing in the bytes is zero, and one that the type does not have is ignored. So
// fields can be added and removed. The name and the type of a field must stay; otherwise the type
// needs a new name and an upcast:
//
//   - [Was] gives a type an old name;
//   - [From] reads an old shape and makes today's value of it;
//   - [Split] reads an old shape that has become several values, or none.
//
// Values that are already written are never rewritten. Package codectest keeps the bytes of each
// release and fails when they can no longer be read as they should be.
package codec
