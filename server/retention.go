package server

import (
	"net/http"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/retention"
)

type retentionJSON struct {
	Rules  []retention.Rule `json:"rules"`
	Status retention.Status `json:"status"`
}

func (s *Server) listRetention(w http.ResponseWriter, r *http.Request) error {
	rules, err := s.retention.Rules(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, retentionJSON{Rules: rules, Status: s.retention.Status()})
}

// runRetention makes a round of the retention begin now.
func (s *Server) runRetention(w http.ResponseWriter, _ *http.Request) error {
	s.retention.Wake()
	return writeStatus(w, http.StatusAccepted, s.retention.Status())
}

func (s *Server) getRetention(w http.ResponseWriter, r *http.Request) error {
	rule, err := s.retention.Rule(r.Context(), r.PathValue("rule"))
	if err != nil {
		return err
	}
	if notModified(w, r, rule.ETag) {
		return nil
	}
	return writeJSON(w, rule)
}

func (s *Server) putRetention(w http.ResponseWriter, r *http.Request) error {
	condition, blind, err := replaceCondition(r.Header)
	if err != nil {
		return err
	}
	var body retention.Rule // an answer can be sent back as it is
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	rule, err := s.retention.PutRule(r.Context(), r.PathValue("rule"), &body.Rule, condition)
	if err != nil {
		return conditionProblem(err, condition, blind, true)
	}
	w.Header().Set("ETag", `"`+rule.ETag+`"`)
	return writeStatus(w, created(condition == entity.IfNone), rule)
}

func (s *Server) deleteRetention(w http.ResponseWriter, r *http.Request) error {
	condition, err := conditionOf(r.Header)
	if err != nil {
		return err
	}
	if err := s.retention.DeleteRule(r.Context(), r.PathValue("rule"), condition); err != nil {
		return conditionProblem(err, condition, false, true)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
