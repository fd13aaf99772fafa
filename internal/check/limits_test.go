package check

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// parameterLimit matches a limit of SQL that is a parameter itself.
var parameterLimit = regexp.MustCompile(`\bLIMIT \?`)

// parameterLimits finds the limits of SQLite's statements that are parameters: SQLite plans by their
// values, and so prepares the statement anew with each call, but not by the value of +?.
func parameterLimits(name string, content []byte) (findings []string) {
	for i, line := range strings.Split(string(content), "\n") {
		if parameterLimit.MatchString(line) {
			findings = append(findings, fmt.Sprintf("%s:%d: a limit is a parameter; write LIMIT +?", name, i+1))
		}
	}
	return findings
}

func TestNoLimitOfSQLiteIsAParameter(t *testing.T) {
	var findings []string
	for _, name := range withExt(t, ".go") {
		if !strings.HasSuffix(name, "_test.go") {
			findings = append(findings, parameterLimits(name, readTracked(t, name))...)
		}
	}
	report(t, findings)
}

func TestParameterLimitsFindsThem(t *testing.T) {
	wantFindings(t, parameterLimits("a.go", []byte("SELECT 1 LIMIT +?\nSELECT 1 LIMIT ?3)\nSELECT 1 LIMIT 1")), "a.go:2")
}
