package retention

import (
	"encoding/binary"
	"fmt"

	"github.com/greenroom-go/greenroom/entity/internal/wire"
	"github.com/greenroom-go/greenroom/entity/series"
)

// encodeChunk encodes the rows of a chunk: a version, then for each row its place in the
// chunk, the length of its summary, and the summary.
func encodeChunk(list []series.Row, step series.Span, n int64) ([]byte, error) {
	body := []byte{chunkVersion}
	var one []byte
	var err error
	for i := range list {
		if one, err = list[i].Summary.AppendBinary(one[:0]); err != nil {
			return nil, err
		}
		body = binary.AppendUvarint(body, uint64((list[i].Start-n*int64(step)*chunkRows)/int64(step)))
		body = binary.AppendUvarint(body, uint64(len(one)))
		body = append(body, one...)
	}
	return body, nil
}

// decodeChunk decodes what encodeChunk has made. The error wraps series.ErrEncoding.
func decodeChunk(body []byte, step series.Span, n int64) ([]series.Row, error) {
	damaged := func(what string) error {
		return fmt.Errorf("chunk %d of %v: %w: %s", n, step, series.ErrEncoding, what)
	}
	in := wire.Reader{Data: body}
	if in.Byte() != chunkVersion {
		return nil, damaged("unknown version")
	}
	var list []series.Row
	least := uint64(0)
	for len(in.Data) > 0 {
		place, summary := in.Uvarint(), in.Bytes()
		if in.Failed || place < least || place >= chunkRows {
			return nil, damaged("a row out of its place")
		}
		sum := &series.Summary{}
		if err := sum.UnmarshalBinary(summary); err != nil {
			return nil, fmt.Errorf("chunk %d of %v: %w", n, step, err)
		}
		start := (n*chunkRows + int64(place)) * int64(step)
		list = append(list, series.Row{Start: start, End: start + int64(step), Summary: sum})
		least = place + 1
	}
	return list, nil
}
