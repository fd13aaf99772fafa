package server

import (
	"errors"
	"net/http"

	"github.com/greenroom-go/greenroom/entity/filter"
)

// parseFilter compiles a filter, or says what is wrong with it.
func parseFilter(text string) (*filter.Filter, error) {
	f, err := filter.Parse(text)
	if err != nil {
		return nil, filterError(err)
	}
	return f, nil
}

func filterError(err error) error {
	p := problemf(http.StatusBadRequest, "%v", err)
	if at, ok := errors.AsType[*filter.Error](err); ok {
		p.Offset, p.Column = &at.Offset, &at.Column
	}
	return p
}
