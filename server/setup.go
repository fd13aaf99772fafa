package server

import (
	"fmt"
	"net/http"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/mapping"
	"github.com/greenroom-go/greenroom/entity/series"
)

// The lines of what a server was set up with, besides its types: mappings, saved
// queries and rules of retention. They have what a client has said, and no
// versions, so that a file of them is the same for the same setup.

// mappingLine is a mapping by its statement.
type mappingLine struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// queryLine is a saved query.
type queryLine struct {
	ID string `json:"id"`
	queryBody
}

// ruleLine is a rule of retention.
type ruleLine struct {
	ID string `json:"id"`
	series.Rule
}

// setupExports write what is not about single entities.
var setupExports = map[string]func(*exporter) error{
	whatTypes:     (*exporter).eachType,
	whatMappings:  (*exporter).eachMapping,
	whatQueries:   (*exporter).eachQuery,
	whatRetention: (*exporter).eachRule,
}

// eachMapping writes those that are installed, in force or not.
func (x *exporter) eachMapping() error {
	list, err := x.mappings.List(x.ctx)
	if err != nil {
		return err
	}
	for i := range list {
		if err := x.json(mappingLine{list[i].Name, list[i].Statement.String()}); err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) eachQuery() error {
	return x.docs(kindQuery, func(d *entity.Doc) (any, error) {
		q, err := newQueryJSON(d)
		return queryLine{q.ID, q.queryBody}, err
	})
}

func (x *exporter) eachRule() error {
	rules, err := x.retainer.Rules(x.ctx)
	if err != nil {
		return err
	}
	for i := range rules {
		if err := x.json(ruleLine{rules[i].ID, rules[i].Rule}); err != nil {
			return err
		}
	}
	return nil
}

// docs writes a line for each document of a kind.
func (x *exporter) docs(kind string, line func(*entity.Doc) (any, error)) error {
	docs, err := x.runtime.Docs(x.ctx, kind)
	if err != nil {
		return err
	}
	for i := range docs {
		v, err := line(&docs[i])
		if err == nil {
			err = x.json(v)
		}
		if err != nil {
			return fmt.Errorf("export %s %q: %w", kind, docs[i].ID, err)
		}
	}
	return nil
}

// json writes a line.
func (x *exporter) json(v any) error {
	text, err := encodeJSON(v)
	if err == nil {
		_, err = x.out.Write(text)
	}
	return err
}

// mapping puts a mapping in force, in the place of one of its name. One after the
// other: whether it closes a cycle depends on those before.
func (m *importer) mapping(line int64, text []byte) {
	m.done(line, func() error {
		var l mappingLine
		if err := decodeJSON(text, &l); err != nil {
			return err
		}
		if l.Name == "" || l.Text == "" {
			return problemf(http.StatusBadRequest, `a mapping must be like {"name":"heat","text":"insert into room select sensor.t * 1.8 + 32 as f"}`)
		}
		statement, err := mapping.Parse(l.Text)
		if err == nil {
			_, err = m.mappings.Put(m.ctx, l.Name, statement, "")
		}
		return err
	}())
}

// query keeps a saved query, in the place of one of its id.
func (m *importer) query(line int64, text []byte) {
	m.done(line, func() error {
		var l queryLine
		if err := decodeJSON(text, &l); err != nil {
			return err
		}
		if l.ID == "" {
			return problemf(http.StatusBadRequest, `a saved query must be like {"id":"hot","filter":"temperature > 30"}`)
		}
		_, err := m.queries.keep(m.ctx, l.ID, &l.queryBody, "")
		return err
	}())
}

// rule puts a rule of retention in force, in the place of one of its id.
func (m *importer) rule(line int64, text []byte) {
	m.done(line, func() error {
		var l ruleLine
		if err := decodeJSON(text, &l); err != nil {
			return err
		}
		if l.ID == "" {
			return problemf(http.StatusBadRequest, `a rule of retention must be like {"id":"meters","type":"Meter","raw":"30d"}`)
		}
		_, err := m.retainer.PutRule(m.ctx, l.ID, &l.Rule, "")
		return err
	}())
}
