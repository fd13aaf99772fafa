package server

import (
	"errors"
	"net/http"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/alarm"
	"github.com/greenroom-go/greenroom/entity/mapping"
	"github.com/greenroom-go/greenroom/entity/retention"
	"github.com/greenroom-go/greenroom/entity/series"
	"github.com/greenroom-go/greenroom/server/script"
)

// Lines of an exported setup, besides types: mappings, scripts, saved queries, retention rules and
// alarm rules. They contain what clients have written and no versions, so that files of the same
// setup are equal.

// mappingLine is a mapping as a statement.
type mappingLine struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// scriptLine is a script in its last version.
type scriptLine struct {
	Name string `json:"name"`
	scriptFields
	// Owner is the name of its owner, "" for everybody or where it is not known, and Off says that it is switched off.
	Owner string `json:"owner,omitempty"`
	Off   bool   `json:"off,omitempty"`
}

// queryLine is a saved query.
type queryLine struct {
	ID string `json:"id"`
	queryBody
}

// ruleLine is a retention rule.
type ruleLine struct {
	ID string `json:"id"`
	series.Rule
}

// alarmRuleLine is an alarm rule.
type alarmRuleLine struct {
	Name string `json:"name"`
	alarmRuleFields
}

// setupExports contains the exports that are not about single entities.
var setupExports = map[string]func(*exporter) error{
	whatTypes:     (*exporter).eachType,
	whatMappings:  (*exporter).eachMapping,
	whatScripts:   (*exporter).eachScript,
	whatQueries:   (*exporter).eachQuery,
	whatRetention: (*exporter).eachRule,
	whatAlarms:    (*exporter).eachAlarmRule,
}

// eachMapping writes the installed mappings, in force or not.
func (x *exporter) eachMapping() error {
	list, err := x.mappings.List(x.ctx)
	return eachLine(x, list, err, func(m *mapping.Installed) (any, error) {
		if m.Statement != nil {
			return mappingLine{m.Name, m.Statement.String()}, nil
		}
		text, err := x.mappings.Text(x.ctx, m.Name)
		if errors.Is(err, mapping.ErrNotFound) || errors.Is(err, entity.ErrNotFound) { // deleted since
			return nil, nil
		}
		return mappingLine{m.Name, text}, err
	})
}

// eachScript writes the stored scripts, in force or not.
func (x *exporter) eachScript() error {
	return eachLine(x, x.scripts.List(), nil, func(s *script.Stored) (any, error) {
		return scriptLine{s.Name, newScriptFields(&s.Script), s.Owner.Name, x.scripts.Status(s.Name).Off != ""}, nil
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

// eachLine writes a line for each element of a list, but for those that line returns nil for; err is
// the error of reading the list.
func eachLine[T any](x *exporter, list []T, err error, line func(*T) (any, error)) error {
	for i := range list {
		if err != nil {
			break
		}
		var v any
		if v, err = line(&list[i]); err == nil && v != nil {
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

// mapping puts a mapping in force, replacing one of the same name. It must be called for one
// mapping at a time, because whether it closes a cycle depends on the previous ones.
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

// script keeps a script, in the place of one of its name. One that somebody else has written must not get
// what the importer may do: it is for the entities of its owner where an admin says so and there is a
// principal of the name, and otherwise it is switched off.
func (m *importer) script(l *scriptLine) error {
	if l.Name == "" || l.Source == "" {
		return problemf(http.StatusBadRequest, `a script must be like {"name":"dry-run","source":"function on_reading(e, r) … end"}`)
	}
	who := callerOf(m.ctx).who
	owner, off := asOwner(who), l.Off
	if l.Owner != who.Name() {
		if other, ok := m.book.Find(l.Owner); ok && administers.check(nil, who, nil) == nil {
			owner = asOwner(other)
		} else {
			off = true
		}
	}
	put := m.scripts.Put
	if off {
		put = m.scripts.PutDisabled
	}
	_, err := put(m.ctx, l.Name, l.script(), owner, script.MaxScripts, "")
	return err
}

// query stores a saved query, replacing one with the same id.
func (m *importer) query(l *queryLine) error {
	if l.ID == "" {
		return problemf(http.StatusBadRequest, `a saved query must be like {"id":"hot","filter":"temperature > 30"}`)
	}
	_, err := m.queries.keep(m.ctx, l.ID, &l.queryBody, "")
	return err
}

// rule puts a retention rule in force, replacing one with the same id.
func (m *importer) rule(l *ruleLine) error {
	if l.ID == "" {
		return problemf(http.StatusBadRequest, `a rule of retention must be like {"id":"meters","type":"Meter","raw":"30d"}`)
	}
	_, err := m.retainer.PutRule(m.ctx, l.ID, &l.Rule, "")
	return err
}

// alarmRule puts an alarm rule in force, replacing one of the same name. Permission to import is
// not enough: this requires an admin, as elsewhere.
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
