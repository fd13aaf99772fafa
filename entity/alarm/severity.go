package alarm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
)

// Severity says how severe an alarm is. A lower number is worse. The zero Severity is not valid.
type Severity uint8

// The severities.
const (
	Critical Severity = 1
	Major    Severity = 2
	Minor    Severity = 3
	Warning  Severity = 4
	Info     Severity = 5
)

// severities is how many there are.
const severities = 5

// SeverityNames returns the names of all, the worst first.
func SeverityNames() []string { return []string{"critical", "major", "minor", "warning", "info"} }

// String returns the name in lower case.
func (s Severity) String() string {
	if s < Critical || s > Info {
		return "none"
	}
	return SeverityNames()[s-1]
}

// ParseSeverity reads the name of a severity.
func ParseSeverity(name string) (Severity, error) {
	if i := slices.Index(SeverityNames(), name); i >= 0 {
		return Severity(i + 1), nil
	}
	return 0, fmt.Errorf("severity: %w: must be one of %s, not %.32q", entity.ErrInvalid, strings.Join(SeverityNames(), ", "), name)
}

// MarshalText returns the name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name.
func (s *Severity) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSeverity(string(text))
	return err
}
