package server

import (
	"net/http"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/alarm"
	"github.com/greenroom-go/greenroom/entity/mapping"
	"github.com/greenroom-go/greenroom/entity/retention"
	"github.com/greenroom-go/greenroom/entity/series"
	"github.com/greenroom-go/greenroom/server/script"
)

// The lines of what a server was set up with, besides its types: mappings, saved
// queries, rules of retention and of alarms. They have what a client has said, and no
// versions, so that a file of them is the same for the same setup.

// mappingLine is a mapping by its statement.
type mappingLine struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// scriptLine is a script in its last version. Who imports it is its owner.
type scriptLine struct {
	Name string `json:"name"`
	scriptFields
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

// alarmRuleLine is a rule of alarms.
type alarmRuleLine struct {
	Name string `json:"name"`
	alarmRuleFields
}

// setupExports write what is not about single entities.
var setupExports = map[string]func(*exporter) error{
	whatTypes:     (*exporter).eachType,
	whatMappings:  (*exporter).eachMapping,
	whatScripts:   (*exporter).eachScript,
	whatQueries:   (*exporter).eachQuery,
	whatRetention: (*exporter).eachRule,
	whatAlarms:    (*exporter).eachAlarmRule,
}

// eachMapping writes those that are installed, in force or not.
func (x *exporter) eachMapping() error {
	list, err := x.mappings.List(x.ctx)
	return eachLine(x, list, err, func(m *mapping.Installed) (any, error) {
		return mappingLine{m.Name, m.Statement.String()}, nil
	})
}

// eachScript writes those that are stored, in force or not.
func (x *exporter) eachScript() error {
	return eachLine(x, x.scripts.List(), nil, func(s *script.Stored) (any, error) {
		return scriptLine{s.Name, newScriptFields(&s.Script)}, nil
	})
}

func (x *exporter) eachQuery() error {
	docs, err := x.runtime.Docs(x.ctx, kindQuery)
	return eachLine(x, docs, err, func(d *entity.Doc) (any, error) {
		q, err := newQueryJSON(d)
		return queryLine{q.ID, q.queryBody}, err
	})
}

func (x *exporter) eachRule() error {
	rules, err := x.retainer.Rules(x.ctx)
	return eachLine(x, rules, err, func(r *retention.Rule) (any, error) { return ruleLine{r.ID, r.Rule}, nil })
}

func (x *exporter) eachAlarmRule() error {
	return eachLine(x, x.alarms.Rules(), nil, func(r *alarm.Installed) (any, error) {
		return alarmRuleLine{r.Name, newAlarmRuleFields(&r.Rule)}, nil
	})
}

func (x *exporter) eachType() error {
	return eachLine(x, x.runtime.Types(), nil, func(t *entity.StoredType) (any, error) { return t.Type, nil })
}

// eachLine writes a line for each part of a list, unless it could not be read.
func eachLine[T any](x *exporter, list []T, err error, line func(*T) (any, error)) error {
	for i := range list {
		if err != nil {
			break
		}
		var v any
		if v, err = line(&list[i]); err == nil {
			err = x.json(v)
		}
	}
	return err
}

// json writes a line.
func (x *exporter) json(v any) error {
	text, err := encodeJSON(v)
	if err == nil {
		_, err = x.out.Write(append(text, '\n'))
	}
	return err
}

// mapping puts a mapping in force, in the place of one of its name. One after the
// other: whether it closes a cycle depends on those before.
func (m *importer) mapping(l *mappingLine) error {
	if l.Name == "" || l.Text == "" {
		return problemf(http.StatusBadRequest, `a mapping must be like {"name":"heat","text":"insert into room select sensor.t * 1.8 + 32 as f"}`)
	}
	statement, err := mapping.Parse(l.Text)
	if err == nil {
		_, err = m.mappings.Put(m.ctx, l.Name, statement, "")
	}
	return err
}

// script puts a script in force, in the place of one of its name.
func (m *importer) script(l *scriptLine) error {
	if l.Name == "" || l.Source == "" {
		return problemf(http.StatusBadRequest, `a script must be like {"name":"dry-run","source":"function on_reading(e, r) … end"}`)
	}
	_, err := m.scripts.Put(m.ctx, l.Name, l.script(), callerOf(m.ctx).who.Name(), script.MaxScripts, "")
	return err
}

// query keeps a saved query, in the place of one of its id.
func (m *importer) query(l *queryLine) error {
	if l.ID == "" {
		return problemf(http.StatusBadRequest, `a saved query must be like {"id":"hot","filter":"temperature > 30"}`)
	}
	_, err := m.queries.keep(m.ctx, l.ID, &l.queryBody, "")
	return err
}

// rule puts a rule of retention in force, in the place of one of its id.
func (m *importer) rule(l *ruleLine) error {
	if l.ID == "" {
		return problemf(http.StatusBadRequest, `a rule of retention must be like {"id":"meters","type":"Meter","raw":"30d"}`)
	}
	_, err := m.retainer.PutRule(m.ctx, l.ID, &l.Rule, "")
	return err
}

// alarmRule puts a rule of alarms in force, in the place of one of its name. Who may import
// may not manage: that needs an admin, as elsewhere.
func (m *importer) alarmRule(l *alarmRuleLine) error {
	if err := administers.check(nil, callerOf(m.ctx).who, nil); err != nil {
		return err
	}
	r, err := l.rule(l.Name)
	if err == nil {
		_, err = m.alarms.PutRule(m.ctx, r, "")
	}
	return err
}
