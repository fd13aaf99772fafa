package server

import (
	"fmt"
	"net/http"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/intake"
)

// A page has some megabytes while it is made, and as many until its reader has taken it, which may be
// long. Both are bounded for all requests together: a request waits until it may make its answer, and,
// if that is large, until it may write it, in the place that it has among those that are made.
const (
	// maxMaking bounds the answers that are made at the same time.
	maxMaking = 16
	// maxAnswers bounds the bytes of large answers that are being written.
	maxAnswers = 128 << 20
	// smallAnswer is the size up to which an answer needs no room.
	smallAnswer = 64 << 10
)

// serveMuch serves an operation, within these bounds if it is for large answers.
func (s *Server) serveMuch(rec *recorder, r *http.Request, o *operation) error {
	if !o.much {
		return o.serve(rec, r)
	}
	from := s.senderOf(r)
	making := s.making.Enter(from, 1)
	defer making.Leave()
	if _, err := granted(r, making, answerTimeout, "answers are on their way to "+from); err != nil {
		return err
	}
	rec.much = func(bytes int) (leave func(), err error) {
		stay := s.answers.Enter(from, int64(bytes))
		if _, err := granted(r, stay, answerTimeout, "answers are on their way to "+from); err != nil {
			stay.Leave()
			return nil, err
		}
		making.Leave()
		return stay.Leave, nil
	}
	return o.serve(rec, r)
}

// granted waits until a request has its room, for a time at most, and reports whether it had to wait.
// what says of what there is too much otherwise.
func granted(r *http.Request, stay *intake.Stay, patience time.Duration, what string) (waited bool, err error) {
	select {
	case <-stay.Granted():
		return false, nil
	default:
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-stay.Granted():
		return true, nil
	case <-r.Context().Done():
		return true, r.Context().Err()
	case <-timeout.C:
		return true, fmt.Errorf("%w: too many large %s", entity.ErrBusy, what)
	}
}
