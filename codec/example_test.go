package codec_test

import (
	"fmt"

	"github.com/greenroom-go/greenroom/codec"
)

// Added is what a cart records today; addedV1 is what it recorded at first.
type Added struct {
	SKU string
	N   int
}

type addedV1 struct{ SKU string }

func Example() {
	types := codec.NewTypes(
		codec.Of[Added]("cart.added.v2", codec.From("cart.added", func(v addedV1) (Added, error) {
			return Added{SKU: v.SKU, N: 1}, nil
		})),
	)
	name, data, err := types.Append(nil, Added{SKU: "tea", N: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := types.Decode(name, data)
	fmt.Println(name, len(data), v, err)

	// The first release wrote {"SKU": "tea"}.
	v, err = types.Decode("cart.added", []byte("\xa1\x63SKU\x63tea"))
	fmt.Println(v, err)
	// Output:
	// cart.added.v2 12 {tea 2} <nil>
	// {tea 1} <nil>
}
