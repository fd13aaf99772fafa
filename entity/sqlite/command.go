package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/changelog"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
)

// Commands are written to their table at commit: they are rare compared with readings, and queries
// select those of an entity by state.

// lastOf identifies a command of an entity in a batch.
type lastOf struct {
	entity int
	id     string
}

// commands writes the final states of the commands in the batch.
func (t *transaction) commands() error {
	var last map[lastOf]int
	ended := make(map[int]int) // by entity
	for i := range t.b.Records {
		r := &t.b.Records[i]
		if r.Command == nil || t.b.Entities[r.Entity].Deleted {
			continue
		}
		if last == nil {
			last = make(map[lastOf]int)
		}
		last[lastOf{r.Entity, r.Command.ID}] = i
		if r.Command.State.Ended() {
			ended[r.Entity]++
		}
	}
	if len(last) == 0 {
		return nil
	}
	t.w.names.commanded.Store(true)
	list := make([]int, 0, len(last))
	for _, i := range last {
		list = append(list, i)
	}
	var blob []byte
	err := t.Bulk(&t.w.command, len(list), func(i int, row []driver.NamedValue) {
		r := &t.b.Records[list[i]]
		c := r.Command
		row[0].Value, row[1].Value, row[2].Value, row[3].Value, row[4].Value, row[5].Value = t.w.nums[r.Entity], c.ID, int64(c.State), nil, nil, nil
		if c.Key != "" {
			row[3].Value = c.Key
		}
		if due := c.Due(); due != 0 {
			row[4].Value = due
		} else {
			row[5].Value = c.Ended
		}
		from := len(blob)
		blob = changelog.AppendCommand(blob, c)
		row[6].Value = blob[from:len(blob):len(blob)]
	})
	if err != nil {
		return fmt.Errorf("commands: %w", err)
	}
	for place, n := range ended {
		if !t.w.ended.Due(t.w.nums[place], n) {
			continue
		}
		// Order by the end: a command that took long is kept as long as others, and with it its
		// answer and its key.
		if _, err := t.query(`DELETE FROM command WHERE entity = ?1 AND due IS NULL AND (ended, id) <=
			(SELECT ended, id FROM command WHERE entity = ?1 AND due IS NULL ORDER BY ended DESC, id DESC LIMIT 1 OFFSET ?2)`,
			1, t.w.nums[place], int64(entity.MaxEndedCommands)); err != nil {
			return fmt.Errorf("commands of %q: %w", t.b.Entities[place].ID, err)
		}
	}
	return nil
}

// command adds an open command.
func (f *filler) command() error {
	e := &f.list[f.int(0)]
	data, _ := f.row[2].([]byte)
	c, err := changelog.DecodeCommand(data, e.ID)
	e.Commands = append(e.Commands, c)
	return err
}

// Commands returns commands of an entity. See [entity.Store].
func (s *Store) Commands(ctx context.Context, id string, q entity.CommandsQuery) (list []entity.Command, err error) {
	defer failure.In(&err, "commands of %q", id)
	var num int64
	if err := s.readDB.QueryRowContext(ctx, "SELECT num FROM entity WHERE id = ?", id).Scan(&num); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			err = entity.ErrNotFound
		}
		return nil, err
	}
	states := ""
	if len(q.States) > 0 {
		numbers := make([]int, len(q.States))
		for i, state := range q.States {
			numbers[i] = int(state)
		}
		text, err := json.Marshal(numbers)
		if err != nil {
			return nil, err
		}
		states = string(text)
	}
	stmt := s.queries.commands
	if q.Key != "" {
		stmt = s.queries.commanded
	}
	return collect(ctx, stmt, func(rows *sql.Rows) (c entity.Command, err error) {
		var data sql.RawBytes
		if err = rows.Scan(&data); err == nil {
			c, err = changelog.DecodeCommand(data, id)
		}
		return c, err
	}, num, q.Before, states, q.ID, q.Key, q.Limit)
}

// OpenCommands returns entities with open commands. See [entity.Store].
func (s *Store) OpenCommands(ctx context.Context) (_ []entity.OpenCommands, err error) {
	defer failure.In(&err, "list open commands")
	if !s.names.commanded.Load() {
		return nil, nil
	}
	return collect(ctx, s.queries.openCommands, func(rows *sql.Rows) (o entity.OpenCommands, err error) {
		err = rows.Scan(&o.Entity, &o.Due)
		return o, err
	})
}
