package codec

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/fxamacker/cbor/v2"
	"google.golang.org/protobuf/proto"
)

// form is how the values of a type are encoded. append is given no nil pointer.
type form struct {
	cbor   bool
	plan   *plan // of CBOR
	append func(dst []byte, v any) ([]byte, error)
	decode func(ts *Types, data []byte) (any, error)
}

// vtMessage has the methods that vtprotobuf generates.
type vtMessage interface {
	SizeVT() int
	MarshalToSizedBufferVT(buf []byte) (int, error)
	UnmarshalVT(data []byte) error
}

var errNil = errors.New("value is nil")

// formOf returns the form of T, or why there is none.
func formOf[T any]() (form, error) {
	t := reflect.TypeFor[T]()
	if t.Kind() == reflect.Interface {
		return form{}, fmt.Errorf("type %v is an interface: register the types that implement it", t)
	}
	var zero T
	pointer := any(&zero)
	element := t
	if t.Kind() == reflect.Pointer {
		pointer, element = any(zero), t.Elem()
	}
	if _, ok := pointer.(vtMessage); ok {
		return formOfMessage(t, vtForm)
	}
	if _, ok := pointer.(proto.Message); ok {
		return formOfMessage(t, protoForm)
	}
	binary, err := checkPair(element, binaryPair)
	if err != nil {
		return form{}, fmt.Errorf("type %v: %w", t, err)
	}
	if binary {
		return binaryForm[T](t), nil
	}
	if err := checkPlain(t); err != nil {
		return form{}, fmt.Errorf("type %v: %w", t, err)
	}
	return plainForm[T](t), nil
}

// formOfMessage returns the form of a message, which is not copied: it may have locks.
func formOfMessage(t reflect.Type, of func(element reflect.Type) form) (form, error) {
	if t.Kind() != reflect.Pointer {
		return form{}, fmt.Errorf("type %v is a protobuf message: register *%v", t, t)
	}
	return of(t.Elem()), nil
}

func vtForm(element reflect.Type) form {
	return form{
		append: func(dst []byte, v any) ([]byte, error) {
			m := v.(vtMessage)
			size := m.SizeVT()
			data := slices.Grow(dst, size)[:len(dst)+size]
			if _, err := m.MarshalToSizedBufferVT(data[len(dst):]); err != nil {
				return nil, err
			}
			return data, nil
		},
		decode: func(_ *Types, data []byte) (any, error) {
			v := reflect.New(element).Interface()
			return v, v.(vtMessage).UnmarshalVT(data)
		},
	}
}

func protoForm(element reflect.Type) form {
	deterministic := proto.MarshalOptions{Deterministic: true}
	return form{
		append: func(dst []byte, v any) ([]byte, error) {
			return deterministic.MarshalAppend(dst, v.(proto.Message))
		},
		decode: func(_ *Types, data []byte) (any, error) {
			v := reflect.New(element).Interface()
			return v, proto.Unmarshal(data, v.(proto.Message))
		},
	}
}

// binaryForm is the form of a type whose methods encode it. They may be methods of the
// pointer while values are registered.
func binaryForm[T any](t reflect.Type) form {
	isPointer := t.Kind() == reflect.Pointer
	return form{
		append: func(dst []byte, v any) ([]byte, error) {
			if data, ok, err := appendBinary(dst, v); ok {
				return data, err
			}
			value := v.(T)
			data, _, err := appendBinary(dst, &value)
			return data, err
		},
		decode: func(_ *Types, data []byte) (any, error) {
			if isPointer {
				v := reflect.New(t.Elem()).Interface()
				return v, v.(encoding.BinaryUnmarshaler).UnmarshalBinary(data)
			}
			var v T
			err := any(&v).(encoding.BinaryUnmarshaler).UnmarshalBinary(data)
			return v, err
		},
	}
}

// appendBinary appends what the methods of v say, and reports whether it has them.
func appendBinary(dst []byte, v any) (data []byte, ok bool, err error) {
	switch m := v.(type) {
	case encoding.BinaryAppender:
		data, err = m.AppendBinary(dst)
	case encoding.BinaryMarshaler:
		data, err = m.MarshalBinary()
		data = append(dst, data...)
	default:
		return nil, false, nil
	}
	return data, true, err
}

// Invalid UTF-8 in a string is given back as it was: an event that could be written and
// not be read is lost. Counts need no limit of their own: cbor looks through the bytes
// before it allocates for them.
var (
	cborEncoder = must(cbor.EncOptions{
		Sort: cbor.SortCoreDeterministic, ShortestFloat: cbor.ShortestFloat16,
		NaNConvert: cbor.NaNConvert7e00, InfConvert: cbor.InfConvertFloat16, IndefLength: cbor.IndefLengthForbidden,
		Time: cbor.TimeRFC3339Nano, TextMarshaler: cbor.TextMarshalerTextString,
	}.UserBufferEncMode())
	cborDecoder   = decoderOf(65535)
	strictDecoder = decoderOf(MaxDepth)
)

func decoderOf(depth int) cbor.DecMode {
	return must(cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden,
		MaxArrayElements: 1<<31 - 1, MaxMapPairs: 1<<31 - 1, MaxNestedLevels: depth,
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive, UTF8: cbor.UTF8DecodeInvalid,
		TextUnmarshaler: cbor.TextUnmarshalerTextString,
	}.DecMode())
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func appendPlain(dst []byte, v any) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	err := cborEncoder.MarshalToBuffer(v, buf)
	return buf.Bytes(), err
}

func plainForm[T any](t reflect.Type) form {
	isPointer := t.Kind() == reflect.Pointer
	plan := planOf(t)
	return form{
		cbor:   true,
		plan:   plan,
		append: appendPlain,
		decode: func(ts *Types, data []byte) (any, error) {
			var v T
			if err := ts.unmarshal(data, &v, plan); err != nil {
				return nil, err
			}
			if isPointer && reflect.ValueOf(v).IsNil() {
				return nil, errNil
			}
			return v, nil
		},
	}
}
