package refusal

import (
	"context"
	"errors"
	"net/http"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
)

// Reason codes of MQTT 5 for a refused message.
const (
	codeImplementation = 0x83
	codeCredentials    = 0x86
	codeNotAuthorized  = 0x87
	codeBusy           = 0x89
	codeShuttingDown   = 0x8b
	codeTopic          = 0x90
	codeQuota          = 0x97
	codePayload        = 0x99
	codeRate           = 0x9f
)

// Return codes of MQTT 3.1.1 for a refused CONNECT.
const (
	connackUnavailable   = 3
	connackCredentials   = 4
	connackNotAuthorized = 5
)

// Answer is what the sender of a message is told about an error of the runtime. An error that a
// retry would not cure never costs the sender its connection:
//
//   - MQTT 5 answers with a PUBACK or PUBREC that contains the code, and the error as its reason;
//   - MQTT 3.1.1, which has no codes, acknowledges as usual;
//   - HTTP answers with the status and the error.
//
// If the sender should try again, MQTT does not acknowledge the message. In no version can a server
// ask for it again except by ending the connection, which MQTT 5 does with the code. The server's
// WebSockets accept no messages.
type Answer struct {
	Err   error
	Name  string // the name of Err in the documentation
	Cause string // "" if it is that of a PayloadError
	// Status is the HTTP status, and Code the MQTT 5 reason code.
	Status int
	Code   byte
	// Connack is the MQTT 3.1.1 return code for a CONNECT refused with the error; 0 if none is.
	Connack byte
	// Retry reports whether the message is not at fault, so that its sender should keep it.
	Retry bool
	// Hint says what the sender can do. It is appended to the error, or replaces it if Instead is
	// set, because the error would not help the sender.
	Hint    string
	Instead bool
}

// Answers contains the answer to each error that a reading, a patch, a relation or a command may
// cause. The first match applies, so errors that wrap others precede them.
var Answers = []Answer{
	{Err: entity.ErrTestFailed, Name: "entity.ErrTestFailed", Cause: CauseConflict, Status: http.StatusConflict, Code: codePayload},
	{Err: entity.ErrNotFound, Name: "entity.ErrNotFound", Cause: CauseNotFound, Status: http.StatusNotFound, Code: codeTopic},
	{Err: entity.ErrConflict, Name: "entity.ErrConflict", Cause: CauseConflict, Status: http.StatusConflict, Code: codePayload},
	{Err: entity.ErrTooManyKeys, Name: "entity.ErrTooManyKeys", Cause: CauseTooManyKeys, Status: http.StatusUnprocessableEntity, Code: codeQuota},
	{
		Err: entity.ErrTooManyCommands, Name: "entity.ErrTooManyCommands", Cause: CauseTooManyCommands, Status: http.StatusTooManyRequests, Code: codeQuota,
		Hint: "send it when others have ended, or cancel some",
	},
	{Err: entity.ErrOtherCommand, Name: "entity.ErrOtherCommand", Cause: CauseConflict, Status: http.StatusConflict, Code: codePayload},
	{Err: entity.ErrCommandEnded, Name: "entity.ErrCommandEnded", Cause: CauseConflict, Status: http.StatusConflict, Code: codePayload},
	{Err: entity.ErrMismatch, Name: "entity.ErrMismatch", Cause: CauseType, Status: http.StatusUnprocessableEntity, Code: codePayload},
	{Err: entity.ErrInvalid, Name: "entity.ErrInvalid", Cause: CauseInvalid, Status: http.StatusBadRequest, Code: codePayload},
	{
		Err: entity.ErrFull, Name: "entity.ErrFull", Cause: CauseFull, Status: http.StatusInsufficientStorage, Code: codeQuota, Retry: true,
		Hint: "make room on it, or move the store; commits go on by themselves when there is room",
	},
	{
		Err: entity.ErrBusy, Name: "entity.ErrBusy", Cause: CauseBusy, Status: http.StatusServiceUnavailable, Code: codeBusy, Retry: true,
		Hint: "send it again in a moment, and less at once",
	},
	{
		Err: entity.ErrStopped, Name: "entity.ErrStopped", Cause: CauseFailed, Status: http.StatusServiceUnavailable, Code: codeImplementation, Retry: true,
		Hint: "the readings were not kept; send them again",
	},
	{
		Err: entity.ErrFailed, Name: "entity.ErrFailed", Cause: CauseFailed, Status: http.StatusInternalServerError, Code: codeImplementation, Retry: true,
		Hint: "the server failed; its log has the reason", Instead: true,
	},
	{
		Err: entity.ErrClosed, Name: "entity.ErrClosed", Cause: CauseClosing, Status: http.StatusServiceUnavailable, Code: codeShuttingDown, Retry: true,
		Hint: "the server is shutting down; try again in a moment", Instead: true,
	},
	{
		Err: access.ErrMissing, Name: "access.ErrMissing", Cause: CauseLogin, Status: http.StatusUnauthorized, Code: codeNotAuthorized, Connack: connackNotAuthorized,
		Hint: "log in, or send a token: Authorization: Bearer …, or over MQTT as the password",
	},
	{Err: access.ErrCredentials, Name: "access.ErrCredentials", Cause: CauseLogin, Status: http.StatusUnauthorized, Code: codeCredentials, Connack: connackCredentials},
	{Err: access.ErrSlowed, Name: "access.ErrSlowed", Cause: CauseLogin, Status: http.StatusTooManyRequests, Code: codeRate, Connack: connackUnavailable},
	{
		Err: access.ErrRate, Name: "access.ErrRate", Cause: CauseRate, Status: http.StatusTooManyRequests, Code: codeRate, Retry: true,
		Hint: "send less, or ask an admin for a higher rate",
	},
	{
		Err: access.ErrBusy, Name: "access.ErrBusy", Cause: CauseBusy, Status: http.StatusServiceUnavailable, Code: codeBusy, Connack: connackUnavailable, Retry: true,
		Hint: "try again in a moment",
	},
	{Err: ErrTopic, Name: "refusal.ErrTopic", Cause: CauseTopic, Status: http.StatusNotFound, Code: codeTopic},
	{Err: access.ErrForbidden, Name: "access.ErrForbidden", Cause: CauseForbidden, Status: http.StatusForbidden, Code: codeNotAuthorized},
	{
		Err: context.DeadlineExceeded, Name: "context.DeadlineExceeded", Cause: CauseBusy, Status: http.StatusServiceUnavailable, Code: codeImplementation, Retry: true,
		Hint: "the server is too busy to answer in time; try again in a moment", Instead: true,
	},
	{
		Err: context.Canceled, Name: "context.Canceled", Cause: CauseClosing, Status: http.StatusServiceUnavailable, Code: codeShuttingDown, Retry: true,
		Hint: "the server is too busy to answer in time; try again in a moment", Instead: true,
	},
}

// unknown is the answer to any other error: one of the store, or a bug.
var unknown = Answer{
	Name: "any other error", Cause: CauseFailed, Status: http.StatusInternalServerError, Code: codeImplementation, Retry: true,
	Hint: "the server failed; its log has the reason", Instead: true,
}

// Find returns the answer to an error, and whether Answers contains one. If not, the server is at
// fault.
func Find(err error) (*Answer, bool) {
	for i := range Answers {
		if errors.Is(err, Answers[i].Err) {
			return &Answers[i], true
		}
	}
	return &unknown, false
}

// Say returns the text for the sender. a must be the answer to err.
func (a *Answer) Say(err error) string {
	switch {
	case a.Instead:
		return a.Hint
	case a.Hint != "":
		return err.Error() + "; " + a.Hint
	default:
		return err.Error()
	}
}
