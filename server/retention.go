package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/series"
)

// ruleJSON is a rule of retention with its version.
type ruleJSON struct {
	ID   string `json:"id"`
	ETag string `json:"etag"`
	series.Rule
}

type retentionJSON struct {
	Rules  []ruleJSON      `json:"rules"`
	Status retentionStatus `json:"status"`
}

func newRuleJSON(d *entity.Doc) (ruleJSON, error) {
	r := ruleJSON{ID: d.ID, ETag: d.ETag()}
	err := json.Unmarshal(d.Body, &r.Rule)
	return r, err
}

func (s *Server) listRetention(w http.ResponseWriter, r *http.Request) error {
	docs, err := s.runtime.Docs(r.Context(), kindRetention)
	if err != nil {
		return err
	}
	list := retentionJSON{Rules: make([]ruleJSON, len(docs)), Status: s.retention.state()}
	for i := range docs {
		if list.Rules[i], err = newRuleJSON(&docs[i]); err != nil {
			return err
		}
	}
	return writeJSON(w, list)
}

// runRetention makes a round of the retention begin now.
func (s *Server) runRetention(w http.ResponseWriter, _ *http.Request) error {
	s.retention.wake()
	return writeStatus(w, http.StatusAccepted, s.retention.state())
}

func (s *Server) getRetention(w http.ResponseWriter, r *http.Request) error {
	doc, err := s.runtime.Doc(r.Context(), kindRetention, r.PathValue("rule"))
	if err != nil {
		return err
	}
	if notModified(w, r, doc.ETag()) {
		return nil
	}
	rule, err := newRuleJSON(&doc)
	if err != nil {
		return err
	}
	return writeJSON(w, rule)
}

func (s *Server) putRetention(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("rule")
	condition, blind, err := replaceCondition(r.Header)
	if err != nil {
		return err
	}
	var body ruleJSON // an answer can be sent back as it is
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	doc, err := s.keepRule(r.Context(), id, &body.Rule, condition)
	if err != nil {
		return conditionProblem(err, condition, blind, true)
	}
	rule, err := newRuleJSON(&doc)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", `"`+doc.ETag()+`"`)
	return writeStatus(w, created(condition == entity.IfNone), rule)
}

// keepRule checks a rule and puts it in force.
func (s *Server) keepRule(ctx context.Context, id string, rule *series.Rule, condition string) (doc entity.Doc, err error) {
	if err := rule.Check(); err != nil {
		return doc, err
	}
	s.editing.Lock()
	defer s.editing.Unlock()
	docs, err := s.runtime.Docs(ctx, kindRetention)
	if err != nil {
		return doc, err
	}
	if err := agrees(docs, id, rule); err != nil {
		return doc, err
	}
	text, err := json.Marshal(rule)
	if err != nil {
		return doc, err
	}
	if doc, err = s.runtime.PutDoc(ctx, kindRetention, id, text, condition); err == nil {
		s.retention.wake()
	}
	return doc, err
}

// agrees tells whether a rule can stand beside the others.
func agrees(docs []entity.Doc, id string, rule *series.Rule) error {
	others := 0
	for i := range docs {
		if docs[i].ID == id {
			continue
		}
		others++
		other, err := newRuleJSON(&docs[i])
		if err != nil {
			return fmt.Errorf("retention rule %q: %w", docs[i].ID, err)
		}
		if other.Type == rule.Type && other.Key == rule.Key {
			return problemf(http.StatusConflict, "the rule %q is about the same type and key; change that one", other.ID)
		}
	}
	if others >= maxRetentionRules {
		return problemf(http.StatusUnprocessableEntity, "there are %d rules, which is the limit; delete one", others)
	}
	return nil
}

func (s *Server) deleteRetention(w http.ResponseWriter, r *http.Request) error {
	condition, err := conditionOf(r.Header)
	if err != nil {
		return err
	}
	if err := s.runtime.DeleteDoc(r.Context(), kindRetention, r.PathValue("rule"), condition); err != nil {
		return conditionProblem(err, condition, false, true)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
