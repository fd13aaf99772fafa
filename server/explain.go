package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/mapping"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/access"
)

// explainedJSON is a value and where it comes from.
type explainedJSON struct {
	Entity string      `json:"entity" example:"room-1"`
	Key    string      `json:"key" example:"fahrenheit"`
	TS     int64       `json:"ts" example:"1451649600512"`
	Value  value.Value `json:"value"`
	// No device sent it.
	Computed bool `json:"computed"`
	// The mapping that computed it.
	Source string `json:"source,omitempty"`
	// The source's number for it: the number of the change that caused it.
	SourceSeq uint64 `json:"source_seq,omitempty"`
	// The mapping is still the version that computed the value.
	SameVersion bool         `json:"same_version,omitempty"`
	Mapping     *mappingJSON `json:"mapping,omitempty"`
}

type explainRequest struct {
	seriesPath
	// The time of the value; by default the latest.
	TS instant `query:"ts" example:"1451649600512"`
}

// explain returns the origin of a value: a device, or a version of a mapping, and the number of the
// change that caused the computation.
func (a *telemetryAPI) explain(ctx context.Context, in *explainRequest) (*answer[explainedJSON], error) {
	value := explainedJSON{Entity: in.ID, Key: in.Key}
	var origin entity.Origin
	var err error
	if in.TS != "" {
		origin, err = a.valueAt(ctx, in.TS, &value)
	} else {
		err = a.runtime.View(ctx, in.ID, func(v entity.View) error {
			l, ok := v.Latest(in.Key)
			if !ok {
				return fmt.Errorf("entity %q has no value of %q: %w", in.ID, shorten(in.Key, 64), entity.ErrNotFound)
			}
			value.TS, value.Value, origin = l.TS, l.Value, l.Origin
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	if !origin.IsZero() {
		value.Computed, value.Source, value.SourceSeq = true, origin.Source, origin.Seq
		if err := a.explainMapping(ctx, origin, &value); err != nil {
			return nil, err
		}
	}
	return ok(value), nil
}

// explainMapping adds the mapping in force under the name of the one that computed a value.
func (a *telemetryAPI) explainMapping(ctx context.Context, origin entity.Origin, value *explainedJSON) error {
	name, version, ok := mappingOf(origin)
	if !ok || !callerOf(ctx).who.MayAll(access.Read) { // the mapping may be about entities that the caller may not see

		return nil
	}
	ex, err := a.mappings.Explain(ctx, name)
	if errors.Is(err, mapping.ErrNotFound) {
		return nil // it has been deleted since
	}
	if err != nil {
		return err
	}
	m := newMappingJSON(&ex)
	value.Mapping, value.SameVersion = &m, ex.Version == version
	return nil
}

// valueAt finds the value in the history at a time.
func (a *telemetryAPI) valueAt(ctx context.Context, at instant, value *explainedJSON) (origin entity.Origin, err error) {
	if value.TS, err = at.ms("ts", 0); err != nil {
		return origin, err
	}
	query := entity.HistoryQuery{ID: value.Entity, Key: value.Key, From: value.TS, To: value.TS + 1, Limit: 1}
	points, _, err := a.runtime.History(ctx, query)
	if err != nil {
		return origin, err
	}
	if len(points) == 0 {
		return origin, fmt.Errorf("entity %q has no value of %q at %d: %w", value.Entity, shorten(value.Key, 64), value.TS, entity.ErrNotFound)
	}
	value.Value = points[0].Value
	origins, err := a.runtime.Origins(ctx, query)
	if err == nil && len(origins) > 0 {
		origin = origins[0].Origin
	}
	return origin, err
}
