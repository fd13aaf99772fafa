package server

import (
	"context"
	"net/http"

	"github.com/greenroom-go/greenroom/entity/retention"
	"github.com/greenroom-go/greenroom/entity/series"
)

// retentionAPI reads and writes retention rules.
type retentionAPI struct{ retainer *retention.Retainer }

func (a *retentionAPI) operations() []operation {
	return []operation{
		op("GET", "/v1/retention", "listRetention", "List the retention rules and what they have done.", a.list, needs(seesAll)),
		op("POST", "/v1/retention", "runRetention", "Apply the retention rules now.", a.run, needs(writesAll), answers(202)),
		op("GET", "/v1/retention/{rule}", "getRetention", "Read one rule.", a.get, needs(seesAll), fails(404)),
		op("PUT", "/v1/retention/{rule}", "putRetention", "Create or replace a retention rule: how long values and rollups are kept.", a.put, needs(writesAll), answers(200, 201), fails(409, 422, 428)),
		op("DELETE", "/v1/retention/{rule}", "deleteRetention", "Delete a retention rule. The rollups that it has made are kept.", a.remove, needs(writesAll), fails(404)),
	}
}

type rulePath struct {
	// The id of the rule.
	Rule string `path:"rule" minLength:"1" maxLength:"256" example:"meters"`
}

// ruleBody is a rule as it is written; a response can be sent back unchanged.
type ruleBody struct {
	// Ignored: the path has it.
	ID string `json:"id,omitempty"`
	// Ignored: the version goes into If-Match.
	ETag string `json:"etag,omitempty"`
	series.Rule
}

// retentionJSON is all rules, by id, and the state of their application.
type retentionJSON struct {
	Rules  []retention.Rule `json:"rules"`
	Status retention.Status `json:"status"`
}

func (a *retentionAPI) list(ctx context.Context, _ *struct{}) (*answer[retentionJSON], error) {
	rules, err := a.retainer.Rules(ctx)
	if err != nil {
		return nil, err
	}
	return ok(retentionJSON{Rules: rules, Status: a.retainer.Status()}), nil
}

// run starts a round of the retention now.
func (a *retentionAPI) run(context.Context, *struct{}) (*answer[retention.Status], error) {
	a.retainer.Wake()
	return ok(a.retainer.Status()).withStatus(http.StatusAccepted), nil
}

type getRuleRequest struct {
	rulePath
	ifChanged
}

func (a *retentionAPI) get(ctx context.Context, in *getRuleRequest) (*answer[retention.Rule], error) {
	rule, err := a.retainer.Rule(ctx, in.Rule)
	if err != nil {
		return nil, err
	}
	return ok(rule).versioned(rule.ETag), nil
}

type putRuleRequest struct {
	rulePath
	precondition
	Body ruleBody
}

func (a *retentionAPI) put(ctx context.Context, in *putRuleRequest) (*answer[retention.Rule], error) {
	rule, err := a.retainer.PutRule(ctx, in.Rule, &in.Body.Rule, in.replacing())
	return replaced(&in.precondition, rule, rule.ETag, err)
}

type deleteRuleRequest struct {
	rulePath
	precondition
}

func (a *retentionAPI) remove(ctx context.Context, in *deleteRuleRequest) (*answer[nothing], error) {
	return in.removed(a.retainer.DeleteRule(ctx, in.Rule, in.condition))
}
