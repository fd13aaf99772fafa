package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// stepDownWithin bounds one request to step down, and leadTick is how often it is looked at whether it has worked.
const (
	stepDownWithin = time.Second
	leadTick       = 5 * time.Millisecond
)

// Leads reports whether this server leads a stream of which several servers have replicas. Puts
// wait for the leader. If it is killed, the others elect another one, which takes 4 to 9 seconds.
func (s *Server) Leads(stream string) bool {
	return s.s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream)
}

// Lead makes this server the leader of a stream, of which it must have a replica. The present
// leader steps down; puts wait for some milliseconds meanwhile. It returns nil once this server
// leads, and otherwise an error with the cause of ctx, which must end, and the servers' last
// answer.
func (s *Server) Lead(ctx context.Context, stream string) error {
	if err := s.handOver(ctx, stream, s.name, func() bool { return s.Leads(stream) }); err != nil {
		return fmt.Errorf("lead the stream %q: %w", stream, err)
	}
	return nil
}

// StepDown makes another server lead a stream that this one leads: the server named to, or one that
// is up to date if to is "". Call it before Close, which would otherwise cost an election. It
// returns nil once this server does not lead the stream, even if it never has, and otherwise an
// error with the cause of ctx, which must end, and the servers' last answer.
func (s *Server) StepDown(ctx context.Context, stream, to string) error {
	if to == s.name && to != "" {
		return fmt.Errorf("step down as the leader of the stream %q: the next leader must be another server, not %q", stream, to)
	}
	if err := s.handOver(ctx, stream, to, func() bool { return !s.Leads(stream) }); err != nil {
		return fmt.Errorf("step down as the leader of the stream %q: %w", stream, err)
	}
	return nil
}

// handOver asks the leader of a stream to step down until that is done.
func (s *Server) handOver(ctx context.Context, stream, to string, done func() bool) error {
	if done() {
		return nil
	}
	nc, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	for {
		err := stepDown(ctx, nc, stream, to)
		again := time.NewTimer(stepDownWithin)
		for waits := true; waits && !done(); {
			select {
			case <-time.After(leadTick):
			case <-again.C:
				waits = false
			case <-ctx.Done():
				again.Stop()
				return errors.Join(context.Cause(ctx), err)
			}
		}
		again.Stop()
		if done() {
			return nil
		}
	}
}

// stepDown asks the leader of a stream to step down in favor of a server.
func stepDown(ctx context.Context, nc *nats.Conn, stream, to string) error {
	var request server.JSApiLeaderStepdownRequest
	if to != "" {
		request.Placement = &server.Placement{Preferred: to}
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stepDownWithin)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, fmt.Sprintf(server.JSApiStreamLeaderStepDownT, stream), body)
	if err != nil {
		return err
	}
	var response server.JSApiStreamLeaderStepDownResponse
	if err := json.Unmarshal(m.Data, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return errors.New(response.Error.Description)
	}
	return nil
}
