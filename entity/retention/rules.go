package retention

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/series"
)

// MaxRules bounds the rules.
const MaxRules = 1000

var (
	// ErrOverlap reports that another rule applies to the same type and key.
	ErrOverlap = errors.New("rules overlap")

	// ErrTooManyRules reports that there are MaxRules rules.
	ErrTooManyRules = errors.New("too many rules")
)

// kindRule is the kind of the documents of rules.
const kindRule = "retention"

// Rule is a rule with its name and version.
type Rule struct {
	ID   string `json:"id"`
	ETag string `json:"etag"`
	series.Rule
}

func decodeRule(d *entity.Doc) (Rule, error) {
	r := Rule{ID: d.ID, ETag: d.ETag()}
	if err := json.Unmarshal(d.Body, &r.Rule); err != nil {
		return r, fmt.Errorf("retention rule %q: %w", d.ID, err)
	}
	return r, nil
}

// Rules returns all rules, in the order of their ids.
func (r *Retainer) Rules(ctx context.Context) ([]Rule, error) {
	docs, err := r.rt.Docs(ctx, kindRule)
	if err != nil {
		return nil, err
	}
	list := make([]Rule, len(docs))
	for i := range docs {
		if list[i], err = decodeRule(&docs[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Rule returns a rule, or an error that wraps entity.ErrNotFound.
func (r *Retainer) Rule(ctx context.Context, id string) (Rule, error) {
	doc, err := r.rt.Doc(ctx, kindRule, id)
	if err != nil {
		return Rule{}, err
	}
	return decodeRule(&doc)
}

// PutRule puts a rule in force, replacing the one of that id, if condition holds for that one: see
// entity.Runtime.PutDoc. The errors wrap series.ErrInvalid for a rule that contradicts itself,
// ErrOverlap and ErrTooManyRules for one that cannot stand beside the others, and those of PutDoc.
func (r *Retainer) PutRule(ctx context.Context, id string, rule *series.Rule, condition string) (Rule, error) {
	if err := rule.Check(); err != nil {
		return Rule{}, err
	}
	r.editing.Lock()
	defer r.editing.Unlock()
	rules, err := r.Rules(ctx)
	if err != nil {
		return Rule{}, err
	}
	others := 0
	for i := range rules {
		if rules[i].ID == id {
			continue
		}
		others++
		if rules[i].Type == rule.Type && rules[i].Key == rule.Key {
			return Rule{}, fmt.Errorf("the rule %q is about the same type and key; change that one: %w", rules[i].ID, ErrOverlap)
		}
	}
	if others >= MaxRules {
		return Rule{}, fmt.Errorf("%w: there may be at most %d; delete one first", ErrTooManyRules, MaxRules)
	}
	text, err := json.Marshal(rule)
	if err != nil {
		return Rule{}, err
	}
	doc, err := r.rt.PutDoc(ctx, kindRule, id, text, condition)
	if err != nil {
		return Rule{}, err
	}
	r.Wake()
	return decodeRule(&doc)
}

// DeleteRule ends a rule, if condition holds for it: see entity.Runtime.DeleteDoc. What
// it has made and deleted stays so.
func (r *Retainer) DeleteRule(ctx context.Context, id, condition string) error {
	return r.rt.DeleteDoc(ctx, kindRule, id, condition)
}
